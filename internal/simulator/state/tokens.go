package state

import (
	"slices"
	"time"
)

// Code is what the signup dialog hands out. An app exchanges it for a token, once.
type Code struct {
	App     string
	Account string
	Expires time.Time
	Used    bool
}

// Bounds of codes.
const (
	CodeLifetime = 30 * time.Second
	MaxCodes     = 1_000
)

// Token authenticates an app. Without accounts it is valid for all of them.
type Token struct {
	Value    string    `json:"access_token"`
	App      string    `json:"app_id"`
	Accounts []string  `json:"accounts,omitempty"`
	Scopes   []string  `json:"scopes"`
	Expires  time.Time `json:"expires_at,omitzero"`
	Issued   time.Time `json:"issued_at"`
	Revoked  bool      `json:"revoked,omitempty"`
}

// Scopes are the permissions that a business grants in the dialog.
func Scopes() []string {
	return []string{"whatsapp_business_management", "whatsapp_business_messaging", "business_management"}
}

// IssueToken stores a token. When there are too many, the oldest is deleted, except those
// for all accounts.
func (d *Data) IssueToken(t *Token) *Token {
	if len(d.Tokens) >= maxTokens {
		oldest := t
		for _, other := range d.Tokens {
			if len(other.Accounts) > 0 && other.Issued.Before(oldest.Issued) {
				oldest = other
			}
		}
		delete(d.Tokens, oldest.Value)
	}
	d.Tokens[t.Value] = t
	return t
}

// Covers tells whether the token is valid for an account.
func (t *Token) Covers(accountID string) bool {
	return len(t.Accounts) == 0 || slices.Contains(t.Accounts, accountID)
}

package setuplinks

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/customers"
	"github.com/parley-chat/parley/internal/fault"
)

// forCustomer names the customer, in redirects, in the audit log and in the table.
const forCustomer = "customer_id"

// maxURL is how long a redirect URL may be.
const maxURL = 2048

// checkRedirect refuses an address to which a person must not be sent: browsers read some characters as others, so that
// the address that we check is not the one that they open.
func checkRedirect(param string, given *string) error {
	if given == nil {
		return nil
	}
	text := *given
	strange := func(char rune) bool {
		return char == '\\' || unicode.IsSpace(char) || unicode.IsControl(char) || char > unicode.MaxASCII
	}
	parsed, err := url.Parse(text)
	if err == nil && parsed.Port() != "" {
		_, err = strconv.ParseUint(parsed.Port(), 10, 16)
	}
	switch {
	case len(text) > maxURL:
		return fault.Invalid(param, "must have at most 2,048 characters")
	case err != nil || strings.ContainsFunc(text, strange) || parsed.Opaque != "" || parsed.Hostname() == "":
		return fault.Invalid(param, "must be an absolute https URL, for example https://platform.example/connected")
	case parsed.User != nil:
		return fault.Invalid(param, "must not contain a user name or a password")
	case parsed.Scheme == "https" || parsed.Scheme == "http" && local(parsed.Hostname()):
		return nil
	default:
		return fault.Invalid(param, "must start with https:// (http:// only for localhost)")
	}
}

func local(host string) bool { return slices.Contains([]string{"localhost", "127.0.0.1"}, host) }

// Success is where the person goes after the number was connected; empty to stay here.
func (l Link) Success(account accounts.ID) string {
	return redirect(l.SuccessRedirectURL, url.Values{
		forCustomer: {l.CustomerID.String()}, "account_id": {account.String()}, "status": {"success"},
	})
}

// Failure is where the person goes when the link did not work; empty to stay here.
func (l Link) Failure(reason Reason) string {
	return redirect(l.FailureRedirectURL, url.Values{
		forCustomer: {l.CustomerID.String()}, "status": {"failed"}, "reason": {string(reason)},
	})
}

// reserved are the parameters that are ours: the URL's own parameters of these names are left out.
func reserved() []string { return []string{forCustomer, "account_id", "status", "reason"} }

// redirect appends parameters to a URL. Its own parameters keep their order and spelling.
func redirect(to *string, add url.Values) string {
	if checkRedirect("", to) != nil || to == nil {
		return ""
	}
	parsed, err := url.Parse(*to)
	if err != nil {
		return ""
	}
	var kept []string
	for pair := range strings.SplitSeq(parsed.RawQuery, "&") {
		name, _, _ := strings.Cut(pair, "=")
		if decoded, err := url.QueryUnescape(name); err == nil {
			name = decoded
		}
		if pair != "" && !slices.Contains(reserved(), name) {
			kept = append(kept, pair)
		}
	}
	parsed.RawQuery, parsed.ForceQuery = strings.Join(append(kept, add.Encode()), "&"), false
	return parsed.String()
}

// Reason is why a link did not work, as the failure redirect names it.
type Reason string

// The reasons.
const (
	Cancelled        Reason = "cancelled"
	LinkExpired      Reason = "link_expired"
	LinkRevoked      Reason = "link_revoked"
	LinkConsumed     Reason = "link_consumed"
	CustomerInactive Reason = "customer_inactive"
	NumberInUse      Reason = "number_in_use"
	ProviderError    Reason = "provider_error"
)

// RefusalError says why a link did not work.
type RefusalError struct {
	Reason Reason
	// cause is a fault, so that the directory knows that nothing was committed.
	cause error
}

func (e *RefusalError) Error() string { return string(e.Reason) + ": " + e.cause.Error() }

func (e *RefusalError) Unwrap() error { return e.cause }

func refuse(reason Reason, cause error) error {
	if cause == nil {
		cause = fault.New(fault.SetupLinkInactive, "The setup link cannot be used: %s.", reason)
	}
	return &RefusalError{Reason: reason, cause: cause}
}

// refusal is why the link cannot be used at its customer, or empty.
func (l Link) refusal(customer customers.Customer) Reason {
	switch {
	case l.Status == Consumed:
		return LinkConsumed
	case l.Status == Revoked:
		return LinkRevoked
	case l.Status == Expired:
		return LinkExpired
	case customer.Inactive():
		return CustomerInactive
	default:
		return ""
	}
}

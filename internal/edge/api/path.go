package api

import (
	"github.com/parley-chat/parley/internal/domain/accounts"
)

// account is the organization's business number in the path, in any status.
func (c *call) account() (accounts.Account, error) {
	return c.cell.Accounts.Find(c.ctx(), c.org(), pathNumber(c))
}

// accountItem is the account in the path and an id under it.
func accountItem[T any, P textID[T]](c *call, noun string) (accounts.Account, T, error) {
	id, err := pathID[T, P](c, "id", noun)
	if err != nil {
		return accounts.Account{}, id, err
	}
	account, err := c.account()
	return account, id, err
}

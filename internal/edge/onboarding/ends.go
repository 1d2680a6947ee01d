package onboarding

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"time"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/setuplinks"
	"github.com/parley-chat/parley/internal/fault"
)

var sixDigits = regexp.MustCompile(`^[0-9]{6}$`)

// numberOf is the number as the provider writes it for people; in E.164 if the answer with the cookie was lost.
func (s *session) numberOf(account accounts.Account) string {
	if s.Number != "" || account.PhoneNumber == nil {
		return s.Number
	}
	return *account.PhoneNumber
}

// end tells the person that the link did not work: at the platform's own site, or here.
func (v *visit) end(invited setuplinks.Invitation, reason setuplinks.Reason) {
	if to := invited.Link.Failure(reason); to != "" {
		v.goTo(to)
		return
	}
	p := page{Name: string(reason), invited: invited}
	if reason == setuplinks.Cancelled || reason == setuplinks.NumberInUse || reason == setuplinks.ProviderError { // the link can still be used
		p.Continue = pathOf(invited.Link.ID.String(), "dialog")
	}
	v.show(http.StatusOK, p)
}

// refused ends the visit for a refusal, and fails for any other error.
func (v *visit) refused(invited setuplinks.Invitation, err error) {
	refusal, is := errors.AsType[*setuplinks.RefusalError](err)
	if !is {
		v.fail(err)
		return
	}
	v.log(err)
	v.end(invited, refusal.Reason)
}

// fail shows that the page cannot be shown now.
func (v *visit) fail(err error) {
	if errors.Is(v.ctx().Err(), context.Canceled) {
		return // the visitor left
	}
	v.Logger.ErrorContext(v.ctx(), "onboarding.failed", "error", err, "ip", v.ip)
	status := http.StatusInternalServerError
	if fault.Of(err) == fault.ServiceUnavailable || errors.Is(err, context.DeadlineExceeded) {
		status = http.StatusServiceUnavailable
		v.w.Header().Set("Retry-After", "10")
	}
	v.show(status, page{Name: "unavailable"})
}

// log logs a refusal without the URL, which may contain the token or a code.
func (v *visit) log(err error) {
	if err != nil {
		v.Logger.WarnContext(v.ctx(), "onboarding.refused", "error", err, "ip", v.ip)
	}
}

func errNotServed(cell string) error {
	return fault.Unavailable(time.Second, fmt.Errorf("cell %s is not served here", cell))
}

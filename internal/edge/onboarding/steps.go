package onboarding

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/go-chi/chi/v5"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/setuplinks"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/clientip"
	"github.com/parley-chat/parley/internal/platform/directory"
	"github.com/parley-chat/parley/internal/provider"
)

// open begins a visit. Mail scanners and previews open links, too: nothing is written.
func (v *visit) open() {
	hash, _ := setuplinks.Hash(chi.URLParam(v.r, "token"))
	bucket := clientip.Bucket(v.ip)
	if guess := v.Guesses.Peek(bucket); !guess.Allowed {
		v.w.Header().Set("Retry-After", strconv.Itoa(guess.RetryAfterSeconds()))
		v.show(http.StatusTooManyRequests, page{Name: "busy"})
		return
	}
	route, err := v.Directory.Reread(v.ctx(), directory.SetupToken, hash)
	if errors.Is(err, directory.ErrUnknown) {
		v.Guesses.Spend(bucket)
		v.show(http.StatusNotFound, page{Name: "unknown"})
		return
	}
	if err != nil {
		v.fail(err)
		return
	}
	home := v.Cells[route.Cell]
	if home == nil {
		v.fail(errNotServed(route.Cell))
		return
	}
	invited, err := home.SetupLinks.InvitationByHash(v.ctx(), route.OrgID, hash)
	if fault.Of(err) == fault.ResourceNotFound { // its creation was interrupted
		v.show(http.StatusNotFound, page{Name: "unknown"})
		return
	}
	if err != nil {
		v.fail(err)
		return
	}
	s := v.sessionOf(invited.Link.ID.String()) // a second tab shares the session of the first
	if s == nil {
		s = newSession(route.OrgID, invited.Link.ID)
	}
	if invited.Refusal() != "" && !invited.Link.ConsumedBy(v.visitor(s)) {
		v.end(invited, invited.Refusal())
		return
	}
	if err := v.keep(s); err != nil {
		v.fail(err)
		return
	}
	v.goTo(pathOf(s.Link.String()))
}

// invited returns the session of the path and its invitation. A link that cannot be used any more ends the visit, unless
// this visitor has used it: consumed then tells so.
func (v *visit) invited(s *session) (invited setuplinks.Invitation, consumed, ok bool) {
	if s == nil {
		return invited, false, false
	}
	invited, err := s.cell.SetupLinks.Invitation(v.ctx(), s.Org, s.Link)
	if err != nil {
		v.fail(err)
		return invited, false, false
	}
	if invited.Link.ConsumedBy(v.visitor(s)) {
		return invited, true, true
	}
	if invited.Refusal() != "" {
		v.end(invited, invited.Refusal())
		return invited, false, false
	}
	return invited, false, true
}

// state shows the page of the state that the link is in.
func (v *visit) state() {
	s := v.resume()
	invited, consumed, ok := v.invited(s)
	switch {
	case !ok:
	case consumed:
		v.consumed(s, invited, http.StatusOK, "")
	default:
		v.show(http.StatusOK, page{Name: "welcome", invited: invited, Continue: pathOf(s.Link.String(), "dialog")})
	}
}

// dialog goes to the provider's dialog.
func (v *visit) dialog() {
	s := v.resume()
	_, consumed, ok := v.invited(s)
	switch {
	case !ok:
	case consumed:
		v.goTo(pathOf(s.Link.String()))
	default:
		if err := v.keep(s); err != nil {
			v.fail(err)
			return
		}
		v.goTo(s.cell.SetupLinks.DialogURL(s.state()))
	}
}

// callback takes the code that the dialog came back with. The code is good for half a minute, so it is exchanged here; the
// token waits in the cookie for the visitor's choice.
func (v *visit) callback() {
	s := v.returned()
	invited, consumed, ok := v.invited(s)
	if !ok {
		return
	}
	query, now := v.r.URL.Query(), v.Clock.Now()
	switch {
	case consumed:
		v.goTo(pathOf(s.Link.String()))
		return
	case s.exchanged(query.Get("code"), now):
		v.goTo(pathOf(s.Link.String(), "number"))
		return
	case query.Get("error") == "access_denied":
		v.end(invited, setuplinks.Cancelled)
		return
	case query.Get("code") == "":
		v.end(invited, setuplinks.ProviderError)
		return
	}
	token, err := s.cell.SetupLinks.Grant(v.ctx(), query.Get("code"))
	if err != nil {
		v.refused(invited, err)
		return
	}
	s.grant(token, query.Get("code"), now)
	if err := v.keep(s); err != nil {
		v.fail(err)
		return
	}
	v.goTo(pathOf(s.Link.String(), "number"))
}

// choosing returns the session, its invitation and the token that was granted, for the pages of the number. Without a token,
// and if this visitor has used the link, the visit goes on at the page of the state: ok is false then.
func (v *visit) choosing() (s *session, invited setuplinks.Invitation, token provider.Token, ok bool) {
	s = v.resume()
	invited, consumed, ok := v.invited(s)
	if !ok {
		return s, invited, token, false
	}
	token = s.granted(v.Clock.Now())
	if consumed || token.Empty() {
		v.goTo(pathOf(s.Link.String()))
		return s, invited, token, false
	}
	return s, invited, token, true
}

// number asks which of the granted numbers to connect.
func (v *visit) number() {
	if s, invited, token, ok := v.choosing(); ok {
		v.choices(s, invited, token, http.StatusOK, "")
	}
}

// choices shows the granted numbers, and what was wrong with the choice before.
func (v *visit) choices(s *session, invited setuplinks.Invitation, token provider.Token, status int, problem string) {
	choices, err := s.cell.SetupLinks.Choices(v.ctx(), s.Org, invited.Link, token)
	if err != nil {
		v.refused(invited, err)
		return
	}
	name := "number"
	if len(choices) == 0 {
		name, status = "none", http.StatusOK
	}
	v.show(status, page{
		Name: name, invited: invited, Choices: choices, Problem: problem,
		Action: pathOf(s.Link.String(), "number"), Continue: pathOf(s.Link.String(), "dialog"),
	})
}

// connect connects the number that the visitor chose.
func (v *visit) connect() {
	s, invited, token, ok := v.choosing()
	if !ok {
		return
	}
	done, err := s.cell.SetupLinks.Complete(v.ctx(), s.Org, v.visitor(s), s.Link, token, v.r.PostFormValue("phone_number_id"))
	if errors.Is(err, setuplinks.ErrBusy) {
		v.w.Header().Set("Refresh", "3; url="+pathOf(s.Link.String(), "number"))
		v.show(http.StatusConflict, page{Name: "connecting", invited: invited})
		return
	}
	if errors.Is(err, setuplinks.ErrNotGranted) { // another tab was granted other numbers meanwhile
		v.choices(s, invited, token, http.StatusConflict, "number.changed")
		return
	}
	// The link was used since it was read, perhaps by this visitor's other click: the state page tells which.
	if refusal, is := errors.AsType[*setuplinks.RefusalError](err); is && refusal.Reason == setuplinks.LinkConsumed {
		v.goTo(pathOf(s.Link.String()))
		return
	}
	if err != nil {
		v.refused(invited, err)
		return
	}
	s.Token, s.Number = "", done.Number.Display
	if err := v.keep(s); err != nil {
		v.fail(err)
		return
	}
	v.goTo(pathOf(s.Link.String()))
}

// consumed shows what this visitor's link has come to: a number that still needs its PIN, or the end.
func (v *visit) consumed(s *session, invited setuplinks.Invitation, status int, problem string) {
	account, ok := v.connected(s, invited)
	if !ok {
		return
	}
	if account.Status == accounts.Onboarding {
		v.show(status, page{
			Name: "pin", invited: invited, Number: s.numberOf(account), Problem: problem,
			Action: pathOf(s.Link.String(), "pin"), Continue: pathOf(s.Link.String(), "later"),
		})
		return
	}
	v.finish(s, invited, account)
}

// connected is the account that the link connected. One that was disconnected and purged since then ends the visit.
func (v *visit) connected(s *session, invited setuplinks.Invitation) (account accounts.Account, ok bool) {
	account, err := s.cell.Accounts.Get(v.ctx(), s.Org, *invited.Link.AccountID)
	switch {
	case fault.Of(err) == fault.ResourceNotFound:
		v.end(invited, setuplinks.LinkConsumed)
	case err != nil:
		v.fail(err)
	}
	return account, err == nil
}

// finish sends the person to the platform, or shows whether the number can send.
func (v *visit) finish(s *session, invited setuplinks.Invitation, account accounts.Account) {
	name := "later"
	if account.Status == accounts.Connected {
		name = "done"
	}
	if to := invited.Link.Success(account.ID); to != "" {
		v.goTo(to)
		return
	}
	v.show(http.StatusOK, page{Name: name, invited: invited, Number: s.numberOf(account)})
}

// register connects the number at the provider with its PIN.
func (v *visit) register() {
	s := v.resume()
	invited, consumed, ok := v.invited(s)
	if !ok {
		return
	}
	if !consumed {
		v.goTo(pathOf(s.Link.String()))
		return
	}
	if invited.Inactive() {
		v.end(invited, setuplinks.CustomerInactive)
		return
	}
	account, ok := v.connected(s, invited)
	if !ok {
		return
	}
	pin := v.r.PostFormValue("pin")
	if !sixDigits.MatchString(pin) {
		v.consumed(s, invited, http.StatusUnprocessableEntity, "pin.digits")
		return
	}
	done, err := s.cell.Accounts.Register(v.ctx(), s.Org, *account.PhoneNumberID, provider.NewPIN(pin))
	if problem := pinProblem(done, err); problem != "" {
		v.log(err)
		v.consumed(s, invited, http.StatusUnprocessableEntity, problem)
		return
	}
	v.goTo(pathOf(s.Link.String()))
}

// pinProblem is the text that says why a registration failed; empty if it did not.
func pinProblem(done accounts.Registration, err error) string {
	switch code := fault.Of(err); {
	case done.Refusal != nil && done.Refusal.Code == fault.NumberNotVerified:
		return "pin.unverified"
	case done.Refusal != nil:
		return "pin.wrong"
	case err == nil:
		return ""
	case code == fault.RegistrationFailed: // five tries in an hour
		return "pin.tries"
	case code == fault.RegistrationInProgress:
		return "pin.running"
	default:
		return "pin.provider"
	}
}

// later ends a visit whose number has no PIN yet. The platform can register it by the API.
func (v *visit) later() {
	s := v.resume()
	invited, consumed, ok := v.invited(s)
	if !ok {
		return
	}
	if !consumed {
		v.goTo(pathOf(s.Link.String()))
		return
	}
	if account, ok := v.connected(s, invited); ok {
		v.finish(s, invited, account)
	}
}

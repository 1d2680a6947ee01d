package messages_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/contacts"
	"github.com/parley-chat/parley/internal/domain/messages"
	"github.com/parley-chat/parley/internal/domain/messages/content"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/provider"
)

// template adds an approved template of the fixture's account, whose body has no parameters.
func (s *fixture) template(t *testing.T, name, category string) {
	t.Helper()
	s.exec(t, `
INSERT INTO templates (org_id, id, account_id, name, language, status, provider_status, category, content, variables, components,
    digest, updated_at)
VALUES (@org_id, @id, @account, @name, 'en_US', 'approved', 'APPROVED', nullif(@category, ''), '', '{}',
    '[{"type":"BODY","text":"Summer sale"}]'::json, '', @now)`, postgres.Args{
		"id": ids.NewOrg(s.Clock.Now()), "account": s.account.ID, "name": name, "category": category, "now": s.Clock.Now(),
	})
}

func parsedContent(t *testing.T, kind, object string) content.Content {
	t.Helper()
	parsed, err := content.Parse(kind, json.RawMessage(object))
	require.NoError(t, err)
	return parsed
}

func useTemplate(t *testing.T, name string) content.Content {
	t.Helper()
	return parsedContent(t, provider.TypeTemplate, fmt.Sprintf(`{"name":%q,"language":"en_US"}`, name))
}

// acceptMany accepts drafts in one transaction, and fails with an error of the caller's.
func (s *fixture) acceptMany(t *testing.T, terms messages.Terms, drafts []messages.Draft, cause error) (answers []messages.Answer) {
	t.Helper()
	err := s.inTx(t, func(ctx context.Context, tx *postgres.Tx) (err error) {
		if answers, err = s.Messages.AcceptManyTx(ctx, tx, s.account, terms, drafts); err != nil {
			return err
		}
		return cause
	})
	require.ErrorIs(t, err, cause)
	return answers
}

// stored counts contacts, conversations, messages, their states, and lane rows.
func (s *fixture) stored(t *testing.T) []int {
	t.Helper()
	counts, err := postgres.Many[int](t.Context(), s.DB.Of(s.org), `
SELECT count(*)::int FROM contacts WHERE org_id = @org_id
UNION ALL SELECT count(*)::int FROM conversations WHERE org_id = @org_id
UNION ALL SELECT count(*)::int FROM messages WHERE org_id = @org_id
UNION ALL SELECT count(*)::int FROM message_states WHERE org_id = @org_id
UNION ALL SELECT count(*)::int FROM lane_rows WHERE lane_id = @lane_id`, postgres.Args{"lane_id": s.account.ID})
	require.NoError(t, err)
	return counts
}

// mixedDrafts are drafts with the code of the refusal that each gets, or "".
func mixedDrafts(t *testing.T, optedOut, optedIn, wrote string) (drafts []messages.Draft, codes []fault.Code) {
	t.Helper()
	for _, one := range []struct {
		to, recipient string
		content       content.Content
		code          fault.Code
	}{
		{"+351910000001", "", text(t), ""},
		{"12", "", text(t), fault.InvalidPhoneNumber},
		{"+351910000002", "", useTemplate(t, "unknown"), "invalid_template_name"},
		{"+351910000001", "", text(t), ""}, // the contact of the first
		{"+351910000003", "", parsedContent(t, provider.TypeImage, `{"id":"med_01M6GZZ6GNTM9XW2PD78P3QHPM"}`), fault.MediaNotFound},
		{optedOut, "", useTemplate(t, "promo"), fault.MarketingOptedOut},
		{optedOut, "", useTemplate(t, "order"), ""}, // opt-outs are about marketing
		{optedOut, "", text(t), ""},
		{optedIn, "", useTemplate(t, "promo"), ""},
		{wrote, "", useTemplate(t, "unsynced"), ""},
		{"", "PT.123", text(t), ""},
		{"", "", text(t), fault.MissingRequiredField},
	} {
		drafts = append(drafts, messages.Draft{
			To: one.to, Recipient: one.recipient, Content: one.content, Source: messages.FromBroadcast, ClientReference: fmt.Sprint("draft ", len(drafts)),
		})
		codes = append(codes, one.code)
	}
	return drafts, codes
}

// requireAnswers compares answers with the codes of refusals, and stored messages with their drafts.
func (s *fixture) requireAnswers(t *testing.T, drafts []messages.Draft, codes []fault.Code, answers []messages.Answer) (accepted int) {
	t.Helper()
	require.Len(t, answers, len(drafts))
	for i, answer := range answers {
		if codes[i] != "" {
			require.NotNil(t, answer.Refusal, "draft %d", i)
			require.Equal(t, codes[i], answer.Refusal.Code, "draft %d", i)
			require.True(t, answer.Message.ID.IsZero(), "draft %d", i)
			continue
		}
		require.Nil(t, answer.Refusal, "draft %d: %v", i, answer.Refusal)
		kept := s.get(t, answer.Message)
		require.Equal(t, messages.Queued, kept.Status)
		require.Equal(t, drafts[i].ClientReference, *kept.ClientReference, "the answer of draft %d is that of another", i)
		require.Equal(t, messages.FromBroadcast, kept.Source)
		accepted++
	}
	return accepted
}

func (s *fixture) contactWith(t *testing.T, number string, marketing contacts.Marketing) {
	t.Helper()
	_, err := s.Contacts.Create(t.Context(), s.org, s.account, contacts.Draft{PhoneNumber: &number, Marketing: &marketing})
	require.NoError(t, err)
}

// TestAcceptMany_Mixed_EachAnsweredRefusedLeaveNothing: a refused draft makes no contact.
func TestAcceptMany_Mixed_EachAnsweredRefusedLeaveNothing(t *testing.T) {
	t.Parallel()
	s := newIdleFixture(t)
	for name, category := range map[string]string{"promo": "MARKETING", "order": "UTILITY", "unsynced": ""} {
		s.template(t, name, category)
	}
	const optedOut, optedIn = "+351910000011", "+351910000012"
	s.contactWith(t, optedOut, contacts.OptedOut)
	s.contactWith(t, optedIn, contacts.OptedIn)
	wrote := *s.Conversation(t, s.org, s.account).ContactNumber
	drafts, codes := mixedDrafts(t, optedOut, optedIn, wrote)
	before := s.stored(t)

	rolledBack := errors.New("rolled back")
	s.acceptMany(t, messages.Terms{}, drafts, rolledBack)
	require.Equal(t, before, s.stored(t), "it is the caller's transaction")

	accepted := s.requireAnswers(t, drafts, codes, s.acceptMany(t, messages.Terms{}, drafts, nil))
	after := s.stored(t)
	require.Equal(t, before[0]+2, after[0], "+351910000001 and PT.123 are new; no refused draft made a contact")
	require.Equal(t, []int{accepted, accepted, accepted}, after[2:])
	require.Equal(t, 2, s.count(t, `SELECT count(*) FROM messages m JOIN contacts c USING (org_id)
WHERE m.org_id = @org_id AND m.contact_id = c.id AND c.phone_number = '+351910000001'`, nil))
	require.Empty(t, s.events(t))

	s.Work(t)
	s.await(t, "all that were accepted are sent", func() bool {
		return s.count(t, `SELECT count(*) FROM message_states WHERE org_id = @org_id AND status = 'sent'`, nil) == accepted
	})
}

func TestAcceptMany_ConsentRequired_OnlyUnwantedMarketingRefused(t *testing.T) {
	t.Parallel()
	s := newIdleFixture(t)
	s.template(t, "promo", "MARKETING")
	s.template(t, "code", "AUTHENTICATION")
	const optedIn = "+351910000012"
	s.contactWith(t, optedIn, contacts.OptedIn)
	wrote := *s.Conversation(t, s.org, s.account).ContactNumber
	before := s.stored(t)
	draft := func(to, template string) messages.Draft {
		return messages.Draft{To: to, Content: useTemplate(t, template), Source: messages.FromBroadcast, ClientReference: to + template}
	}
	drafts := []messages.Draft{
		draft("+351910000001", "promo"), draft("+351910000001", "code"), draft(optedIn, "promo"), draft(wrote, "promo"), draft("+351910000002", "promo"),
	}
	codes := []fault.Code{fault.ConsentRequired, "", "", "", fault.ConsentRequired}
	s.requireAnswers(t, drafts, codes, s.acceptMany(t, messages.Terms{RequireOptIn: true}, drafts, nil))
	require.Equal(t, before[0]+1, s.stored(t)[0], "only the code made a contact")
}

func TestAcceptMany_AllRefused_NothingStored(t *testing.T) {
	t.Parallel()
	s := newIdleFixture(t)
	drafts := []messages.Draft{{To: "1", Content: text(t)}, {To: "+351910000001", Content: useTemplate(t, "unknown")}}
	codes := []fault.Code{fault.InvalidPhoneNumber, "invalid_template_name"}
	s.requireAnswers(t, drafts, codes, s.acceptMany(t, messages.Terms{}, drafts, nil))
	require.Equal(t, []int{0, 0, 0, 0, 0}, s.stored(t))
	require.Empty(t, s.acceptMany(t, messages.Terms{}, nil, nil))
}

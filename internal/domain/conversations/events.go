package conversations

import (
	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/events"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

type assignedData struct {
	Conversation assignedConversation `json:"conversation"`
	Assignee     assignment           `json:"assignee"`
}

type assignedConversation struct {
	ID            ID      `json:"id"`
	Object        string  `json:"object"`
	Status        Status  `json:"status"`
	PhoneNumberID *string `json:"phone_number_id"`
}

type assignment struct {
	UserID         *orgs.UserID `json:"user_id"`
	TeamID         orgs.TeamID  `json:"team_id"`
	PreviousUserID *orgs.UserID `json:"previous_user_id"`
}

type closedData struct {
	Conversation closedConversation `json:"conversation"`
}

type closedConversation struct {
	ID             ID      `json:"id"`
	Object         string  `json:"object"`
	Status         Status  `json:"status"`
	ClosedByUserID *string `json:"closed_by_user_id"`
	PhoneNumberID  *string `json:"phone_number_id"`
}

const object = "conversation"

func (s *Service) announceTx(tx *postgres.Tx, of accounts.Account, what events.Type, c Conversation, data any) error {
	draft := events.Draft{Type: what, At: c.UpdatedAt, Data: data}
	if of.PhoneNumberID != nil {
		draft.PhoneNumberID = *of.PhoneNumberID
	}
	return s.events.RecordTx(tx, draft)
}

func (s *Service) assignedTx(tx *postgres.Tx, of accounts.Account, c Conversation, previous *orgs.UserID) error {
	return s.announceTx(tx, of, events.ConversationAssigned, c, assignedData{
		Conversation: assignedConversation{ID: c.ID, Object: object, Status: c.Status, PhoneNumberID: of.PhoneNumberID},
		Assignee:     assignment{UserID: c.AssigneeID, TeamID: of.TeamID, PreviousUserID: previous},
	})
}

// closedTx tells who closed a conversation, if that was a person.
func (s *Service) closedTx(tx *postgres.Tx, of accounts.Account, c Conversation, by audit.Principal) error {
	closed := closedConversation{ID: c.ID, Object: object, Status: c.Status, PhoneNumberID: of.PhoneNumberID}
	if by.Kind == audit.User {
		closed.ClosedByUserID = &by.ID
	}
	return s.announceTx(tx, of, events.ConversationClosed, c, closedData{Conversation: closed})
}

package messages

import (
	"context"
	"slices"
	"time"

	"github.com/parley-chat/parley/internal/domain/conversations"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// months are the tables of messages that are dropped by the month. Lists read messages first: without a message nothing
// else of it is shown.
func months() []postgres.Partitioned {
	return []postgres.Partitioned{
		{Table: "messages", Every: postgres.Monthly},
		{Table: "message_states", Every: postgres.Monthly},
		{Table: "send_attempts", Every: postgres.Monthly},
	}
}

// The range of ids keeps each statement in the partitions of this portion: an array alone excludes none.
const (
	sqlOld = `
SELECT id, conversation_id
FROM messages
WHERE org_id = @org_id
  AND id >= @from
  AND id > @after
  AND id < @before
ORDER BY id
LIMIT @limit`
	sqlExpire = `-- locks: messages, message_states, send_attempts, provider_messages, media_waiting, media_downloads, media_deletions
WITH doomed AS MATERIALIZED (
    SELECT id FROM messages WHERE org_id = @org_id AND id = ANY (@ids) AND id BETWEEN @first AND @last ORDER BY id FOR UPDATE
), states AS (
    DELETE FROM message_states
    WHERE org_id = @org_id AND id = ANY (ARRAY (SELECT id FROM doomed)) AND id BETWEEN @first AND @last
    RETURNING provider_id, second_provider_id, media_key, edit_history
), tries AS (
    DELETE FROM send_attempts
    WHERE org_id = @org_id AND message_id = ANY (ARRAY (SELECT id FROM doomed)) AND message_id BETWEEN @first AND @last
)` + sqlHanging + `
DELETE FROM messages WHERE org_id = @org_id AND id = ANY (ARRAY (SELECT id FROM doomed)) AND id BETWEEN @first AND @last
RETURNING id`
	// The rows themselves go with their partitions.
	sqlRelease = `-- locks: provider_messages, media_waiting, media_downloads, media_deletions
WITH doomed AS MATERIALIZED (
    SELECT unnest(@ids::uuid[]) AS id
), states AS (
    SELECT provider_id, second_provider_id, media_key, edit_history
    FROM message_states
    WHERE org_id = @org_id AND id = ANY (@ids) AND id BETWEEN @first AND @last
)` + sqlHanging + `
SELECT id FROM doomed`
)

// ExpireBefore deletes the messages of an organization that were stored before a time, with everything that hangs on them:
// states, attempts, the provider's ids, files. It begins after the id after, or with the oldest if that is zero. A postgres.MoreError
// means that its time was over, and says where the next call goes on.
func (s *Service) ExpireBefore(ctx context.Context, org orgs.ID, after ids.Any, before time.Time) error {
	return s.expire(ctx, org, after, sqlExpire, time.UnixMilli(0), before)
}

// MonthsBefore returns the starts of the months whose messages are all older than a time, oldest first.
func (s *Service) MonthsBefore(ctx context.Context, before time.Time) ([]time.Time, error) {
	return s.work.EndedBefore(ctx, months(), before)
}

const sqlNextOfMonth = `
SELECT org_id
FROM messages
WHERE org_id > @after
  AND id >= @from
  AND id < @before
ORDER BY org_id
LIMIT 1`

// NextOfMonth returns the first organization after another that has messages in a month, in the order of their ids. It
// returns postgres.ErrNoRow after the last.
func (s *Service) NextOfMonth(ctx context.Context, month time.Time, after orgs.ID) (orgs.ID, error) {
	return postgres.One[orgs.ID](ctx, s.work.System("organizations of a month"), sqlNextOfMonth, postgres.Args{
		"after": after, "from": ids.Floor[kind](month), "before": ids.Floor[kind](months()[0].End(month)),
	})
}

// ReleaseMonth does for an organization what dropping a month of messages does not: it deletes the provider's ids of the
// messages, and has their files deleted. A postgres.MoreError says where the next call goes on.
func (s *Service) ReleaseMonth(ctx context.Context, org orgs.ID, month time.Time, from ids.Any) error {
	return s.expire(ctx, org, from, sqlRelease, month, months()[0].End(month))
}

// DropMonth drops a month of messages that was released for every organization.
func (s *Service) DropMonth(ctx context.Context, month time.Time) error {
	return s.work.DropStarted(ctx, months(), month)
}

func (s *Service) expire(ctx context.Context, org orgs.ID, after ids.Any, sql string, from, before time.Time) error {
	type old struct {
		ID             ID
		ConversationID conversations.ID
	}
	return postgres.InPortions(ctx, s.work, org, after, func(tx *postgres.Tx, portion postgres.Args) ([]ids.Any, error) {
		portion["from"], portion["before"] = ids.Floor[kind](from), ids.Floor[kind](before)
		rows, err := postgres.Many[old](ctx, tx, sqlOld, portion)
		if err != nil || len(rows) == 0 {
			return nil, err
		}
		of := postgres.Each(rows, func(o old) conversations.ID { return o.ConversationID })
		slices.SortFunc(of, func(a, b conversations.ID) int { return a.Any().Compare(b.Any()) })
		if err := s.conversations.ExpiredTx(ctx, tx, slices.Compact(of), ids.Floor[kind](before).Any()); err != nil {
			return nil, err
		}
		_, err = tx.Exec(ctx, sql, postgres.Args{
			"ids": postgres.Each(rows, func(o old) ID { return o.ID }), "first": rows[0].ID, "last": rows[len(rows)-1].ID,
			"now": s.clock.Now(),
		})
		// All that were read, also those that went meanwhile: the walk is over when nothing is left to read.
		return postgres.Each(rows, func(o old) ids.Any { return o.ID.Any() }), err
	})
}

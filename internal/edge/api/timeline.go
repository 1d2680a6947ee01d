package api

import (
	"context"

	"github.com/parley-chat/parley/internal/domain/messages"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/domain/timeline"
	"github.com/parley-chat/parley/internal/platform/paging"
)

// timelineEnvelope is a list that says what it leaves out.
type timelineEnvelope struct {
	listEnvelope

	LeftOut []timeline.LeftOut `json:"left_out"`
}

func getMessageTimeline(c *call) (reply, error) {
	account, id, err := accountItem[messages.ID](c, "message")
	if err != nil {
		return reply{}, err
	}
	var found timeline.Page
	type page = paging.Page[timeline.Entry, timeline.Position]
	read := func(ctx context.Context, org orgs.ID, slice paging.Slice[timeline.Position]) (page, error) {
		found, err = c.cell.Timeline.Read(ctx, org, account, id, slice)
		return found.Page, err
	}
	answer, err := list(c, timeline.Entry.Resource, read)
	if shown, is := answer.body.(listEnvelope); is {
		answer.body = timelineEnvelope{listEnvelope: shown, LeftOut: found.LeftOut}
	}
	return answer, err
}

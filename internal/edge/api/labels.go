package api

import (
	"context"
	"net/http"

	"github.com/parley-chat/parley/internal/domain/labels"
)

func listLabels(c *call) (reply, error) {
	return list(c, labels.Label.Resource, c.cell.Labels.List)
}

func createLabel(c *call) (reply, error) {
	draft, err := decode[labels.Draft](c)
	if err != nil {
		return reply{}, err
	}
	at := func(made labels.Label) string { return "/labels/" + made.ID.String() }
	return writeNew(c, at, labels.Label.Resource, func(ctx context.Context) (labels.Label, error) {
		return c.cell.Labels.Create(ctx, c.org(), draft)
	})
}

func getLabel(c *call) (reply, error) {
	id, err := pathID[labels.ID](c, "id", "label")
	if err != nil {
		return reply{}, err
	}
	label, err := c.cell.Labels.Get(c.ctx(), c.org(), id)
	return read(c, labels.Label.Resource, label, err)
}

func updateLabel(c *call) (reply, error) {
	change, err := decode[labels.Patch](c)
	if err != nil {
		return reply{}, err
	}
	id, err := pathID[labels.ID](c, "id", "label")
	if err != nil {
		return reply{}, err
	}
	return write(c, http.StatusOK, labels.Label.Resource, func(ctx context.Context) (labels.Label, error) {
		return c.cell.Labels.Update(ctx, c.org(), id, change)
	})
}

func deleteLabel(c *call) (reply, error) {
	id, err := pathID[labels.ID](c, "id", "label")
	if err != nil {
		return reply{}, err
	}
	gone := func(label labels.Label) deleted { return deletedOf("label", label.ID) }
	return write(c, http.StatusOK, gone, func(ctx context.Context) (labels.Label, error) {
		return c.cell.Labels.Delete(ctx, c.org(), id)
	})
}

package api

import (
	"net/http"

	"github.com/parley-chat/parley/internal/domain/apikeys"
	"github.com/parley-chat/parley/internal/domain/orgs"
)

func (a *API) getHealth(*call) (reply, error) {
	return reply{status: http.StatusOK, body: map[string]string{"status": "ok", "version": a.Version}}, nil
}

func (a *API) getOpenAPI(*call) (reply, error) {
	return reply{status: http.StatusOK, encoded: a.document}, nil
}

// me is the API key of the request, with its organization and teams.
type me struct {
	apikeys.Resource

	Organization orgs.Resource       `json:"organization"`
	Teams        []orgs.TeamResource `json:"teams"`
}

func getMe(c *call) (reply, error) {
	key, err := c.cell.Keys.Get(c.ctx(), c.org(), c.caller.KeyID)
	if err != nil {
		return reply{}, err
	}
	view, err := c.cell.Orgs.Overview(c.ctx(), c.org())
	return read(c, func(view orgs.Overview) me {
		return me{Resource: key.Resource(), Organization: view.Resource(), Teams: view.TeamResources()}
	}, view, err)
}

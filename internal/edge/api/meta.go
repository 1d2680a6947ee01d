package api

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"strings"

	"github.com/parley-chat/parley/internal/domain/apikeys"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/platform/gzipped"
	"github.com/parley-chat/parley/openapi"
)

func (a *API) getHealth(*call) (reply, error) {
	return reply{status: http.StatusOK, body: map[string]string{"status": "ok", "version": a.Version}}, nil
}

// document is the contract as this server serves it.
type document struct {
	plain, compressed []byte
}

func newDocument(contract *openapi.Contract, served []*openapi.Operation, publicURL string) (document, error) {
	plain, err := contract.Serving(served, strings.TrimRight(publicURL, "/")+prefix)
	if err != nil {
		return document{}, err
	}
	var buffer bytes.Buffer
	w := gzip.NewWriter(&buffer)
	if _, err := w.Write(plain); err != nil {
		return document{}, err
	}
	if err := w.Close(); err != nil {
		return document{}, err
	}
	return document{plain: plain, compressed: buffer.Bytes()}, nil
}

func (a *API) getOpenAPI(c *call) (reply, error) {
	document, err := a.document()
	if err != nil {
		return reply{}, err
	}
	answer := c.tagged(reply{status: http.StatusOK, encoded: document.plain}, document.plain)
	answer.header["Cache-Control"] = publicRevalidate
	answer.header["Vary"] = []string{"Authorization, Accept-Encoding"}
	if answer.status == http.StatusOK && gzipped.Accepted(c.request.Header) {
		answer.encoded = document.compressed
		answer.header["Content-Encoding"] = []string{"gzip"}
	}
	return answer, nil
}

var publicRevalidate = []string{"public, no-cache"}

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

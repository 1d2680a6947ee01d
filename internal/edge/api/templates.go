package api

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/go-chi/chi/v5"

	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/domain/templates"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/paging"
)

func listTemplates(c *call) (reply, error) {
	account, err := c.account()
	if err != nil {
		return reply{}, err
	}
	filter := templates.Filter{Status: templates.Approved, Language: c.query.Get("language")}
	if status := c.query.Get("status"); status != "" {
		filter.Status = templates.Status(status)
	}
	if filter.Status == "all" {
		filter.Status = ""
	}
	shown := func(t templates.Template) templates.Resource { return t.Resource(account) }
	type page = paging.Page[templates.Template, templates.ID]
	return list(c, shown, func(ctx context.Context, org orgs.ID, slice paging.Slice[templates.ID]) (page, error) {
		return c.cell.Templates.List(ctx, org, account, filter, slice)
	})
}

func createTemplate(c *call) (reply, error) {
	draft, err := decode[templates.Draft](c)
	if err != nil {
		return reply{}, err
	}
	account, err := c.account()
	if err != nil {
		return reply{}, err
	}
	at := func(made templates.Template) string {
		return "/" + *account.PhoneNumberID + "/templates/" + made.Name + "?language=" + url.QueryEscape(made.Language)
	}
	shown := func(t templates.Template) templates.Resource { return t.Resource(account) }
	return writeNew(c, at, shown, func(ctx context.Context) (templates.Template, error) {
		return c.cell.Templates.Create(ctx, c.org(), account, draft)
	})
}

func updateTemplate(c *call) (reply, error) {
	change, err := decode[templates.Patch](c)
	if err != nil {
		return reply{}, err
	}
	account, err := c.account()
	if err != nil {
		return reply{}, err
	}
	name, err := pathName(c)
	if err != nil {
		return reply{}, err
	}
	shown := func(t templates.Template) templates.Resource { return t.Resource(account) }
	return write(c, http.StatusOK, shown, func(ctx context.Context) (templates.Template, error) {
		return c.cell.Templates.Update(ctx, c.org(), account, name, change)
	})
}

// pathName is the name of a template in the path.
func pathName(c *call) (string, error) {
	name, err := url.PathUnescape(chi.URLParam(c.request, "name")) // chi matches the path before decoding
	if err != nil || !utf8.ValidString(name) || strings.Contains(name, "\x00") {
		return "", fault.NotFound("template")
	}
	return name, nil
}

func getTemplate(c *call) (reply, error) {
	account, err := c.account()
	if err != nil {
		return reply{}, err
	}
	name, err := pathName(c)
	if err != nil {
		return reply{}, err
	}
	template, err := c.cell.Templates.Find(c.ctx(), c.org(), account, name, c.query.Get("language"))
	return read(c, func(t templates.Template) templates.Resource { return t.Resource(account) }, template, err)
}

func syncTemplates(c *call) (reply, error) {
	account, err := c.account()
	if err != nil {
		return reply{}, err
	}
	same := func(result templates.Synced) templates.Synced { return result }
	return write(c, http.StatusOK, same, func(ctx context.Context) (templates.Synced, error) {
		return c.cell.Templates.Sync(ctx, c.org(), account)
	})
}

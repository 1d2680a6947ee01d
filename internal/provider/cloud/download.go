package cloud

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/provider"
)

// maxRedirects of a download.
const maxRedirects = 3

// fileHosts may be redirected to, without the token.
var fileHosts = []string{".fbsbx.com", ".fbcdn.net", ".whatsapp.net"}

// DownloadMedia opens a file. The token goes to the network's own media hosts and nowhere
// else, even if a callback or a redirect names another host.
func (c *Client) DownloadMedia(ctx context.Context, by provider.Number, location string) (provider.Download, error) {
	r := request{operation: "download_media", token: by.Token}
	target, err := url.Parse(location)
	if err != nil || !c.trusts(target) {
		return provider.Download{}, c.impossible(r, "the address is not one of the provider's media hosts")
	}
	for range maxRedirects + 1 {
		response, err := c.fetch(ctx, r, target) //nolint:bodyclose // redirected closes it, or the caller does
		if err != nil {
			return provider.Download{}, err
		}
		if response.StatusCode == http.StatusOK {
			return provider.Download{Body: response.Body, MIMEType: response.Header.Get("Content-Type"), Size: response.ContentLength}, nil
		}
		next, failed := c.redirected(r, response)
		if failed != nil {
			return provider.Download{}, failed
		}
		target = next
	}
	return provider.Download{}, c.impossible(r, "the file redirects in circles")
}

// trusts reports whether a host may see the token: only these hosts, over the scheme of the API.
func (c *Client) trusts(target *url.URL) bool {
	return target.Scheme == c.base.Scheme && target.User == nil && slices.Contains(c.mediaHosts, target.Host)
}

// follows reports whether a redirect may be followed.
func (c *Client) follows(target *url.URL) bool {
	return c.trusts(target) || target.Scheme == "https" && target.User == nil && target.Port() == "" &&
		slices.ContainsFunc(fileHosts, func(host string) bool { return strings.HasSuffix(target.Hostname(), host) })
}

func (c *Client) fetch(ctx context.Context, r request, target *url.URL) (*http.Response, error) {
	way := new(trail)
	ctx, cancel := context.WithCancel(ctx)
	built, err := http.NewRequestWithContext(way.follow(ctx), http.MethodGet, target.String(), nil)
	if err != nil {
		cancel()
		return nil, c.impossible(r, "the address cannot be read")
	}
	built.Header.Set("User-Agent", userAgent)
	if c.trusts(target) {
		built.Header.Set("Authorization", "Bearer "+r.token.Reveal())
	}
	response, err := c.transport.RoundTrip(built)
	if err != nil {
		cancel()
		return nil, c.unanswered(ctx, r, way, err)
	}
	body := response.Body
	response.Body = readCloser{body, closer(func() error { defer cancel(); return body.Close() })}
	return response, nil
}

type closer func() error

func (c closer) Close() error { return c() }

// redirected reads an answer that is no file: where it leads, or why there is none.
func (c *Client) redirected(r request, response *http.Response) (*url.URL, error) {
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode/100 == 3 {
		next, err := response.Location()
		if err != nil || !c.follows(next) {
			return nil, c.impossible(r, "the file redirects to a host that is not the provider's")
		}
		return next, nil
	}
	body, _ := io.ReadAll(io.LimitReader(response.Body, maxAnswer)) // an empty one says enough
	failed := c.judge(r, answer{status: response.StatusCode, header: response.Header, body: body})
	if failed == nil {
		failed = c.wordless(r, answer{status: response.StatusCode, header: response.Header})
	}
	if failed.ProviderCode == nil && (response.StatusCode == http.StatusNotFound || response.StatusCode == http.StatusGone) {
		failed.Class, failed.Missing, failed.Details = provider.Terminal, true, "the address has expired"
	}
	if failed.Code == fault.UpstreamError {
		failed.Code = provider.MediaDownloadFailed
	}
	return nil, failed
}

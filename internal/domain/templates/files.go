package templates

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/gabriel-vasile/mimetype"

	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/safehttp"
	"github.com/parley-chat/parley/internal/provider"
)

const megabyte = 1 << 20

// headerFile is what a header of a format may show.
type headerFile struct {
	types []string
	most  int64
	rule  string
}

// headerFiles are the formats of headers with a file.
func headerFiles() map[string]headerFile {
	return map[string]headerFile{
		"IMAGE":    {[]string{"image/jpeg", "image/png"}, 5 * megabyte, "a JPEG or PNG image of at most 5 MiB"},
		"VIDEO":    {[]string{"video/mp4", "video/x-m4v", "video/3gpp"}, 16 * megabyte, "an MP4 or 3GPP video of at most 16 MiB"},
		"GIF":      {[]string{"video/mp4", "video/x-m4v"}, 3 * megabyte, "an MP4 video of at most 3 MiB"},
		"DOCUMENT": {[]string{"application/pdf"}, 100 * megabyte, "a PDF of at most 100 MiB"},
	}
}

// withFiles uploads the examples of headers that are URLs to the provider, and returns the components with its handles. Cards
// that show the same URL share one upload.
func (s *Service) withFiles(ctx context.Context, of provider.BusinessAccount, components json.RawMessage) (json.RawMessage, error) {
	var all []map[string]any
	if err := json.Unmarshal(components, &all); err != nil {
		return nil, err
	}
	u := &uploads{service: s, of: of, handles: map[string]string{}}
	if err := u.replace(ctx, "components", all); err != nil {
		return nil, err
	}
	return json.Marshal(all)
}

type uploads struct {
	service *Service
	of      provider.BusinessAccount
	// handles are the provider's, by format and URL.
	handles map[string]string
}

func (u *uploads) replace(ctx context.Context, at string, all []map[string]any) error {
	for i, component := range all {
		at := fmt.Sprintf("%s[%d]", at, i)
		cards, _ := component["cards"].([]any)
		for n, card := range cards {
			inner := componentsOf(card)
			if err := u.replace(ctx, fmt.Sprintf("%s.cards[%d].components", at, n), inner); err != nil {
				return err
			}
		}
		if err := u.header(ctx, at, component); err != nil {
			return err
		}
	}
	return nil
}

// componentsOf are the components of a card. They are the card's own maps, so that changes stay in it.
func componentsOf(card any) (all []map[string]any) {
	of, _ := card.(map[string]any)
	list, _ := of["components"].([]any)
	for _, one := range list {
		if component, is := one.(map[string]any); is {
			all = append(all, component)
		}
	}
	return all
}

// header replaces the URL of a header's example by the provider's handle.
func (u *uploads) header(ctx context.Context, at string, component map[string]any) error {
	kind, _ := component["type"].(string)
	format, _ := component["format"].(string)
	file, takes := headerFiles()[strings.ToUpper(format)]
	shown, _ := component["example"].(map[string]any)
	if !takes || shown == nil || !strings.EqualFold(kind, kindHeader) {
		return nil
	}
	param, address := at+".example.header_url", ""
	if given, _ := shown["header_url"].(string); given != "" {
		address = given
	} else if handles, _ := shown["header_handle"].([]any); len(handles) == 1 {
		given, _ := handles[0].(string)
		if !strings.HasPrefix(strings.ToLower(given), "https://") && !strings.HasPrefix(strings.ToLower(given), "http://") {
			return nil // a handle already
		}
		param, address = at+".example.header_handle[0]", given
	}
	if address == "" {
		return nil // the provider refuses it
	}
	key := strings.ToUpper(format) + " " + address
	if u.handles[key] == "" {
		handle, err := u.service.upload(ctx, u.of, param, address, file)
		if err != nil {
			return err
		}
		u.handles[key] = handle
	}
	delete(shown, "header_url")
	shown["header_handle"] = []any{u.handles[key]}
	return nil
}

// answersWithin is that of the service; tests set a shorter one.
const answersWithin = 10 * time.Second

// headSize is how much of a file is read to tell its type.
const headSize = 4 << 10

// upload streams the file at a URL to the provider. An upload that breaks goes on where it was, for which the file is
// fetched again.
func (s *Service) upload(ctx context.Context, of provider.BusinessAccount, param, address string, wanted headerFile) (string, error) {
	if s.fetch == nil {
		return "", errors.New("templates: no client for the URLs of tenants")
	}
	if err := s.fetch.CheckURL(address); err != nil {
		return "", fault.Invalid(param, err.Error())
	}
	fetching, stop := context.WithCancel(ctx)
	defer stop()
	slow := time.AfterFunc(s.answersWithin, stop)
	first, err := s.fetch.Fetch(fetching, address, wanted.most)
	if err != nil {
		return "", fetchFault(ctx, param, wanted, err)
	}
	defer func() { _ = first.Body.Close() }()
	head := make([]byte, min(headSize, first.Size))
	if _, err := io.ReadFull(first.Body, head); err != nil {
		return "", fetchFault(ctx, param, wanted, err)
	}
	slow.Stop()
	detected := mimetype.Detect(head)
	if !mimetype.EqualsAny(detected.String(), wanted.types...) {
		return "", fault.Invalid(param, fmt.Sprintf("must lead to %s; it leads to %s", wanted.rule, detected))
	}
	opened, broken := false, error(nil)
	handle, err := s.provider.UploadExample(ctx, of.Token, provider.File{
		Name: nameOf(address), MIMEType: plainType(detected.String()), Size: first.Size,
		Open: func() (io.ReadCloser, error) {
			if !opened {
				opened = true
				return io.NopCloser(&watched{Reader: io.MultiReader(bytes.NewReader(head), first.Body), failed: &broken}), nil
			}
			again, err := s.fetch.Fetch(ctx, address, first.Size)
			if err == nil && again.Size != first.Size {
				_ = again.Body.Close()
				err = errors.New("the file changed while it was uploaded")
			}
			if broken = err; err != nil {
				return nil, err
			}
			return again.Body, nil
		},
	})
	if err != nil && broken != nil { // the tenant's host is to blame, not the provider
		return "", fetchFault(ctx, param, wanted, broken)
	}
	return handle, writeFault(err)
}

// watched remembers why reading failed.
type watched struct {
	io.Reader

	failed *error
}

func (w *watched) Read(into []byte) (int, error) {
	n, err := w.Reader.Read(into)
	if err != nil && !errors.Is(err, io.EOF) {
		*w.failed = err
	}
	return n, err
}

// plainType is the provider's name of a content type.
func plainType(detected string) string {
	if detected == "video/x-m4v" {
		return "video/mp4"
	}
	return detected
}

// nameOf is the last part of a URL's path.
func nameOf(address string) string {
	parsed, err := url.Parse(address)
	if err != nil || path.Base(parsed.Path) == "/" || path.Base(parsed.Path) == "." {
		return "file"
	}
	return path.Base(parsed.Path)
}

func fetchFault(ctx context.Context, param string, wanted headerFile, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	failure, is := errors.AsType[*safehttp.Failure](err)
	if is && failure.Code == safehttp.ResponseTooLarge {
		return fault.Invalid(param, "must lead to "+wanted.rule)
	}
	why := "it did not answer in time, or the connection broke"
	if is {
		why = failure.Error()
	}
	return fault.Invalid(param, "could not be read: "+why+". It must be public, without redirects, and tell its length")
}

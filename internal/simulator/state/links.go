package state

import (
	"context"
	"io"
	"maps"
	"net/http"
	"time"

	"github.com/parley-chat/parley/internal/simulator/content"
	"github.com/parley-chat/parley/internal/simulator/wire"
)

// linkResult is the cached result of a download.
type linkResult struct {
	at      time.Time
	id      string
	problem string
}

// fetchLink downloads a linked file before the statuses of its message are scheduled. The
// caller holds the lock.
func (s *Simulation) fetchLink(d *Delivery, link string) {
	if cached, found := s.Data.Files.links[link]; found && s.Now().Sub(cached.at) < linkLifetime {
		s.linkFetched(d, cached)
		return
	}
	download := func(ctx context.Context) {
		mimeType, data, problem := s.downloadLink(ctx, link)
		if problem == "" {
			problem = content.Fits(d.Kind, mimeType, len(data))
		}
		s.Lock()
		defer s.Unlock()
		now := s.Now()
		result := linkResult{at: now, problem: problem}
		if problem == "" {
			result.id = s.Data.AddFile(d.Number.ID, mimeType, "", data, now.Add(linkLifetime), now).ID
		}
		if len(s.Data.Files.links) >= maxLinks {
			clear(s.Data.Files.links)
		}
		s.Data.Files.links[link] = result
		s.linkFetched(d, result)
	}
	select {
	case s.downloads <- download:
	default: // too many downloads wait: the file is not checked
		s.ScheduleStatuses(d)
	}
}

// linkFetched shows the file in the chat, or lets the message fail.
func (s *Simulation) linkFetched(d *Delivery, result linkResult) {
	if result.problem != "" {
		d.Failure = wire.Refusal(131053, "%s", result.problem)
	} else if m := s.Data.Messages[d.ID]; m != nil {
		before, _ := m.Content.(object)
		after := object{"file": result.id}
		maps.Copy(after, before)
		m.Content = after
		s.Feed.Publish("message", m)
	}
	s.ScheduleStatuses(d)
}

// downloadLink downloads a linked file.
func (s *Simulation) downloadLink(ctx context.Context, link string) (mimeType string, data []byte, problem string) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, link, nil)
	if err != nil {
		return "", nil, "Downloading media from weblink failed: the URL is not valid."
	}
	client := &http.Client{Transport: s.Config.Transport, Timeout: answerTimeout}
	response, err := client.Do(request)
	if err != nil {
		return "", nil, "Downloading media from weblink failed: the host does not answer."
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return "", nil, "Downloading media from weblink failed with http code " + response.Status[:3] + "."
	}
	data, err = io.ReadAll(io.LimitReader(response.Body, 100<<20+1))
	if err != nil {
		return "", nil, "Downloading media from weblink failed: the connection broke."
	}
	return response.Header.Get("Content-Type"), data, ""
}

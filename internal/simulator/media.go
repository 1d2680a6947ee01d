package simulator

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"io"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/parley-chat/parley/internal/simulator/content"
	"github.com/parley-chat/parley/internal/simulator/wire"
)

// How long a file's id may be used.
const (
	uploadedLife = 30 * 24 * time.Hour
	receivedLife = 7 * 24 * time.Hour
	linkLife     = 10 * time.Minute
)

// The bounds of stored files.
const (
	maxMediaBytes = 256 << 20
	maxMediaFiles = 10_000
	maxLinks      = 1_000
)

type media struct {
	ID       string
	Mime     string
	Filename string
	number   string
	data     []byte
	sum      [sha256.Size]byte
	expires  time.Time
}

func (m *media) size() int     { return len(m.data) }
func (m *media) sum64() string { return base64.StdEncoding.EncodeToString(m.sum[:]) }

// mediaStore holds the newest files, up to its bounds.
type mediaStore struct {
	files map[string]*media
	order []*media
	bytes int
	links map[string]fetched
}

// fetched is what became of a linked file.
type fetched struct {
	at      time.Time
	id      string
	problem string
}

func newMediaStore() *mediaStore {
	return &mediaStore{files: map[string]*media{}, links: map[string]fetched{}}
}

func (m *mediaStore) find(id string, now time.Time) *media {
	found := m.files[id]
	if found == nil || now.After(found.expires) {
		return nil
	}
	return found
}

func (w *world) keepMedia(numberID, mimeType, filename string, data []byte, expires, now time.Time) *media {
	store := w.media
	kept := &media{
		ID: w.id(mediaSeries), Mime: mimeType, Filename: filename, number: numberID, data: data, sum: sha256.Sum256(data), expires: expires,
	}
	store.files[kept.ID] = kept
	store.order = append(store.order, kept)
	store.bytes += len(data)
	for len(store.order) > 1 && (store.bytes > maxMediaBytes || len(store.order) > maxMediaFiles || now.After(store.order[0].expires)) {
		store.drop(store.order[0])
		store.order = store.order[1:]
	}
	return kept
}

func (m *mediaStore) drop(gone *media) {
	if m.files[gone.ID] == gone {
		delete(m.files, gone.ID)
		m.bytes -= len(gone.data)
	}
}

func (m *mediaStore) remove(gone *media) {
	m.drop(gone)
	m.order = slices.DeleteFunc(m.order, func(kept *media) bool { return kept == gone })
}

// fetch has a linked file fetched before the message goes on; the caller holds the lock.
func (s *Simulator) fetch(d *dispatch, kind, link string) {
	if known, found := s.world.media.links[link]; found && s.Now().Sub(known.at) < linkLife {
		s.fetched(d, known)
		return
	}
	job := func(ctx context.Context) {
		mimeType, data, problem := s.get(ctx, link)
		if problem == "" {
			problem = content.Fits(kind, mimeType, len(data))
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		now := s.Now()
		result := fetched{at: now, problem: problem}
		if problem == "" {
			result.id = s.world.keepMedia(d.number.ID, mimeType, "", data, now.Add(linkLife), now).ID
		}
		if len(s.world.media.links) >= maxLinks {
			clear(s.world.media.links)
		}
		s.world.media.links[link] = result
		s.fetched(d, result)
	}
	select {
	case s.jobs <- job:
	default: // too much to do: nobody looks at the file then
		s.schedule(d)
	}
}

func (s *Simulator) fetched(d *dispatch, result fetched) {
	if result.problem != "" {
		d.failure = wire.Refusal(131053, "%s", result.problem)
	} else if b := s.world.bubbles[d.id]; b != nil {
		content, _ := b.Content.(object)
		shown := object{"file": result.id}
		maps.Copy(shown, content)
		b.Content = shown
		s.live.publish("message", b)
	}
	s.schedule(d)
}

// get downloads a linked file.
func (s *Simulator) get(ctx context.Context, link string) (mimeType string, data []byte, problem string) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, link, nil)
	if err != nil {
		return "", nil, "Downloading media from weblink failed: the URL is not valid."
	}
	follow := &http.Client{Transport: s.config.Transport, Timeout: answerTimeout}
	response, err := follow.Do(request)
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

func hexSum(sum [sha256.Size]byte) string { return hex.EncodeToString(sum[:]) }

package media

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"mime"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/bucket"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/lanes"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/provider"
)

const (
	laneKind = "media"
	// workers and slowWorkers are how many numbers a process fetches for at once, leastAtOnce and
	// mostAtOnce how many files of one of them. Each file may keep 5 MiB in memory.
	workers, slowWorkers    = 8, 8
	leastAtOnce, mostAtOnce = 2, 4
	// callTimeout bounds the download of one file.
	callTimeout = 10 * time.Minute
	// freshFor is how long the address that came with a message is used.
	freshFor = 4 * time.Minute
)

func (s *Service) kind() lanes.Kind[*download, outcome] {
	return lanes.Kind[*download, outcome]{
		Name: laneKind, Open: s.open, SetAside: s.setAside, Least: leastAtOnce, Most: mostAtOnce, Timeout: callTimeout + 10*time.Second,
		Workers: workers, SlowWorkers: slowWorkers,
	}
}

// outcome is what became of a download. gone says that the file can never be fetched.
type outcome struct {
	size     int64
	mimeType string
	err      error
	gone     bool
}

type result = lanes.Result[*download, outcome]

func (s *Service) open(_ context.Context, lane lanes.Lane) (lanes.Work[*download, outcome], error) {
	return lanes.Work[*download, outcome]{
		Read: func(ctx context.Context, tasks []*lanes.Task[*download, outcome]) error {
			return s.read(ctx, lane, tasks)
		},
		Call: func(ctx context.Context, _ lanes.Row, d *download) lanes.Answer[outcome] {
			ctx, cancel := context.WithTimeout(ctx, callTimeout)
			defer cancel()
			return lanes.Answer[outcome]{Value: s.fetch(ctx, d)}
		},
		Settle: func(ctx context.Context, tx *postgres.Tx, batch *lanes.Batch[*download, outcome]) error {
			return s.settle(ctx, tx, batch.Results)
		},
	}, nil
}

// read finds the downloads of rows. A row without one leaves the lane: its number was purged.
func (s *Service) read(ctx context.Context, lane lanes.Lane, tasks []*lanes.Task[*download, outcome]) error {
	found, err := downloadsByID(ctx, s.work.Of(lane.Org), lanes.RowIDs(tasks))
	if err != nil {
		return err
	}
	numbers := map[accounts.ID]*provider.Number{}
	for _, task := range tasks {
		one := found[task.Row.ID]
		if one == nil {
			task.Answer(lanes.Answer[outcome]{})
			continue
		}
		if _, known := numbers[one.AccountID]; !known {
			if numbers[one.AccountID], err = s.number(ctx, lane, one.AccountID); err != nil {
				return err
			}
		}
		if one.number = numbers[one.AccountID]; one.number == nil {
			task.Answer(lanes.Answer[outcome]{}) // its purge is under way
			continue
		}
		task.Value = one
	}
	return nil
}

// number is the number as the provider is called for it; nil if it was disconnected.
func (s *Service) number(ctx context.Context, lane lanes.Lane, id accounts.ID) (*provider.Number, error) {
	account, err := s.accounts.Get(ctx, lane.Org, id)
	if fault.Of(err) == fault.ResourceNotFound {
		return nil, nil //nolint:nilnil // there is none, and that is no failure
	}
	if err != nil {
		return nil, err
	}
	number, err := s.accounts.Number(lane.Org, account)
	return &number, err
}

// fetch streams a file from the provider into the bucket.
func (s *Service) fetch(ctx context.Context, d *download) outcome {
	if s.bucket == nil {
		return outcome{err: errors.New("no bucket is set"), gone: true}
	}
	file, err := s.openFile(ctx, d)
	if err != nil {
		return outcome{err: err} // also if it is missing: a permission that was taken away may come back
	}
	defer func() { _ = file.Body.Close() }()
	sum := sha256.New()
	content := &bounded{from: io.TeeReader(file.Body, sum), left: maxSize}
	kind := contentType(d.MIMEType, file.MIMEType)
	size, err := s.bucket.Put(ctx, d.Key, bucket.File{ContentType: kind, Disposition: disposition(d.Filename)}, &verified{
		Reader: content, check: func() error {
			if len(d.SHA256) > 0 && !bytes.Equal(sum.Sum(nil), d.SHA256) {
				return errors.New("the file differs from its checksum")
			}
			return nil
		},
	})
	return outcome{size: size, mimeType: kind, err: err, gone: errors.Is(err, errTooLarge)}
}

// openFile opens the download: at the address that came with the message while that works, else at the
// one that the provider names now.
func (s *Service) openFile(ctx context.Context, d *download) (provider.Download, error) {
	if d.URL != "" && s.clock.Now().Sub(d.createdAt()) < freshFor {
		file, err := s.provider.DownloadMedia(ctx, *d.number, d.URL)
		failed, known := provider.As(err)
		if err == nil || d.ProviderMediaID == "" || !known || !failed.Missing && failed.Class != provider.Terminal {
			return file, err
		}
	}
	found, err := s.provider.FindMedia(ctx, *d.number, d.ProviderMediaID)
	if err != nil {
		return provider.Download{}, err
	}
	return s.provider.DownloadMedia(ctx, *d.number, found.URL)
}

var errTooLarge = errors.New("the file is larger than 100 MiB")

// bounded fails when there is more to read than allowed.
type bounded struct {
	from io.Reader
	left int64
}

func (b *bounded) Read(into []byte) (int, error) {
	n, err := b.from.Read(into)
	if b.left -= int64(n); b.left < 0 {
		return 0, errTooLarge
	}
	return n, err
}

// verified fails at the end of its reader if a check does, so that nothing is stored.
type verified struct {
	io.Reader

	check func() error
}

func (v *verified) Read(into []byte) (int, error) {
	n, err := v.Reader.Read(into)
	if errors.Is(err, io.EOF) {
		if failed := v.check(); failed != nil {
			return n, failed
		}
	}
	return n, err
}

// maxTypeLength is longer than any registered type of a file.
const maxTypeLength = 255

// contentType is the first of the types that can be read.
func contentType(given ...string) string {
	for _, kind := range given {
		if _, _, err := mime.ParseMediaType(kind); err == nil && len(kind) <= maxTypeLength {
			return kind
		}
	}
	return "application/octet-stream"
}

// disposition has browsers save the file instead of showing it.
func disposition(filename string) string {
	filename = safeName(filename)
	if header := mime.FormatMediaType("attachment", map[string]string{"filename": filename}); filename != "" && header != "" {
		return header
	}
	return "attachment"
}

// maxNameLength is how many characters of a file's name are kept: headers are short.
const maxNameLength = 150

// safeName is the name of a file without folders and without characters that are not shown, such as line breaks and
// those that reverse the direction of text. A long name keeps its end, which has the extension.
func safeName(name string) string {
	if at := strings.LastIndexAny(name, `/\`); at >= 0 {
		name = name[at+1:]
	}
	kept := []rune(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, name))
	return string(kept[max(0, len(kept)-maxNameLength):])
}

// settle writes what became of downloads, tells the owner, and has the others tried again.
func (s *Service) settle(ctx context.Context, tx *postgres.Tx, results []result) error {
	var outcomes []Outcome
	var done, again []*download
	var of accounts.ID
	for i := range results {
		one := &results[i]
		if one.Task == nil || one.Outcome == lanes.Postponed {
			continue
		}
		counted := *one.Task // a settlement that failed is made again with the same task
		d := &counted
		of = d.AccountID
		switch state := s.judge(ctx, tx, one, d); state {
		case Ready, Failed:
			outcomes, done = append(outcomes, d.outcome(state)), append(done, d)
		default:
			again = append(again, d)
			if d.Tries >= triesBeforeEvent {
				outcomes = append(outcomes, d.outcome(Late))
			}
		}
	}
	if len(done)+len(again) == 0 {
		return nil
	}
	account, err := s.accounts.GetTx(ctx, tx, of)
	if fault.Of(err) == fault.ResourceNotFound {
		return nil // its purge is under way
	}
	if err != nil {
		return err
	}
	gone, err := s.owner(ctx, tx, account, outcomes)
	if err != nil {
		return err
	}
	if err := endDownloads(ctx, tx, done, again); err != nil {
		return err
	}
	return s.DeleteTx(ctx, tx, keysOf(done, gone))
}

// keysOf are the keys of the downloads whose messages do not exist any more.
func keysOf(done []*download, gone []ids.Any) (keys []string) {
	for _, d := range done {
		if slices.Contains(gone, d.ID) {
			keys = append(keys, d.Key)
		}
	}
	return keys
}

// judge decides what becomes of a download; the empty state has it tried again.
func (s *Service) judge(ctx context.Context, tx *postgres.Tx, one *result, d *download) State {
	now := s.clock.Now()
	if one.Outcome == lanes.Returned && one.Value.err == nil {
		d.MIMEType, d.size = one.Value.mimeType, one.Value.size
		return Ready
	}
	d.Tries++
	over := one.Value.gone || now.Sub(d.createdAt()) > keepsTrying
	s.logger.WarnContext(ctx, "media.download_failed",
		"org", tx.Org(), "message", d.ID, "tries", d.Tries, "over", over, "error", one.Value.err)
	if over {
		return Failed
	}
	one.Answer = lanes.Answer[outcome]{RetryAt: now.Add(retryAfter(d.Tries))}
	return ""
}

// setAside gives up files that could not be handled.
func (s *Service) setAside(ctx context.Context, tx *postgres.Tx, _ lanes.Lane, rows []lanes.Aside[*download]) error {
	found, err := downloadsByID(ctx, tx, postgres.Each(rows, func(row lanes.Aside[*download]) ids.Any { return row.Row.ID }))
	if err != nil || len(found) == 0 {
		return err
	}
	var done []*download
	var outcomes []Outcome
	for _, d := range found {
		done, outcomes = append(done, d), append(outcomes, d.outcome(Failed))
	}
	account, err := s.accounts.GetTx(ctx, tx, done[0].AccountID)
	if fault.Of(err) == fault.ResourceNotFound {
		return nil
	}
	if err != nil {
		return err
	}
	gone, err := s.owner(ctx, tx, account, outcomes)
	if err != nil {
		return err
	}
	if err := endDownloads(ctx, tx, done, nil); err != nil {
		return err
	}
	return s.DeleteTx(ctx, tx, keysOf(done, gone))
}

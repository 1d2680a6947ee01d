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
	"github.com/parley-chat/parley/internal/platform/bucket"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/lanes"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/provider"
)

// freshFor is how long the address that came with a message is used.
const freshFor = 4 * time.Minute

// fetch streams a file from the provider into the bucket.
func (s *Service) fetch(ctx context.Context, one *transfer) outcome {
	d := one.down
	if s.bucket == nil {
		return outcome{err: errors.New("no bucket is set"), gone: true}
	}
	file, err := s.openFile(ctx, one)
	if err != nil {
		return outcome{err: err} // also if it is missing: a permission that was taken away may come back
	}
	defer func() { _ = file.Body.Close() }()
	sum := sha256.New()
	content := &bounded{from: io.TeeReader(file.Body, sum), left: maxSize}
	kind := contentType(d.MIMEType, file.MIMEType)
	size, err := s.bucket.Put(ctx, d.Key, bucket.File{ContentType: kind, Disposition: Disposition(d.Filename)}, &verified{
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
func (s *Service) openFile(ctx context.Context, one *transfer) (provider.Download, error) {
	d, number := one.down, *one.number
	if d.URL != "" && s.clock.Now().Sub(d.createdAt()) < freshFor {
		file, err := s.provider.DownloadMedia(ctx, number, d.URL)
		failed, known := provider.As(err)
		if err == nil || d.ProviderMediaID == "" || !known || !failed.Missing && failed.Class != provider.Terminal {
			return file, err
		}
	}
	found, err := s.provider.FindMedia(ctx, number, d.ProviderMediaID)
	if err != nil {
		return provider.Download{}, err
	}
	return s.provider.DownloadMedia(ctx, number, found.URL)
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

// Disposition has browsers save the file instead of showing it.
func Disposition(filename string) string {
	filename = SafeName(filename)
	if header := mime.FormatMediaType("attachment", map[string]string{"filename": filename}); filename != "" && header != "" {
		return header
	}
	return "attachment"
}

// maxNameLength is how many characters of a file's name are kept: headers are short.
const maxNameLength = 150

// SafeName is the name of a file without folders and without characters that are not shown, such as line breaks and
// those that reverse the direction of text. A long name keeps its end, which has the extension.
func SafeName(name string) string {
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

// settleDownloads writes what became of downloads, tells the owner, and has the others tried again.
func (s *Service) settleDownloads(ctx context.Context, tx *postgres.Tx, of accounts.Account, results []*result) error {
	var outcomes []Outcome
	var done, again []*download
	for _, one := range results {
		counted := *one.Task.down // a settlement that failed is made again with the same task
		d := &counted
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
	return s.endDownloadsTx(ctx, tx, of, outcomes, done, again)
}

func (s *Service) endDownloadsTx(
	ctx context.Context, tx *postgres.Tx, of accounts.Account, outcomes []Outcome, done, again []*download,
) error {
	if len(done)+len(again) == 0 {
		return nil
	}
	gone, err := s.owner.Files(ctx, tx, of, outcomes)
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

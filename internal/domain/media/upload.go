package media

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/bucket"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/lanes"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/provider"
)

const (
	// reuseFor is how old an upload may be when a message is accepted with it, uploadLasts when the message is sent. The
	// provider keeps an upload for 30 days.
	reuseFor    = 29 * 24 * time.Hour
	uploadLasts = 30*24*time.Hour - time.Hour
)

// LibraryFile is a file of the library with all that its upload needs.
type LibraryFile struct {
	ID       ids.Any `json:"id"`
	Key      string  `json:"key"`
	MIMEType string  `json:"mime_type"`
	Filename string  `json:"filename"`
	Size     int64   `json:"size"`
}

// Waiting is a message that is not sent before its library files are uploaded.
type Waiting struct {
	MessageID ids.Any
	// Priority is that of the message in the lane of sends.
	Priority int
	Files    []LibraryFile
}

// Released is a message that waits no longer: its files are uploaded or, with Failed, cannot be.
type Released struct {
	MessageID ids.Any
	Priority  int
	Failed    *provider.Error
}

func (w *waiting) released(failed *provider.Error) Released {
	return Released{MessageID: w.ID, Priority: w.Priority, Failed: failed}
}

// UploadTx has the files of messages uploaded for their number. The owner gets the messages back.
func (s *Service) UploadTx(ctx context.Context, tx *postgres.Tx, of accounts.Account, all []Waiting) error {
	if err := insertWaiting(ctx, tx, of.ID, all); err != nil {
		return err
	}
	for _, one := range all {
		row := lanes.Row{ID: one.MessageID, Priority: one.Priority}
		if err := s.lanes.AddTx(ctx, tx, LaneKind, laneOf(of.ID), row); err != nil {
			return err
		}
	}
	return nil
}

// WithdrawTx gives the messages among rows of a media lane back to their owner without an upload. Their rows leave the
// lane when it is drained.
func (s *Service) WithdrawTx(ctx context.Context, tx *postgres.Tx, rows []ids.Any) error {
	found, err := transfersByID(ctx, tx, rows)
	if err != nil {
		return err
	}
	var of accounts.ID
	var released []Released
	for _, one := range found {
		if one.up != nil {
			of, released = one.up.AccountID, append(released, one.up.released(nil))
		}
	}
	if len(released) == 0 {
		return nil
	}
	messages := postgres.Each(released, func(r Released) ids.Any { return r.MessageID })
	return s.lockedTx(ctx, tx, of, messages, nil, func(of accounts.Account) error { return s.handBackTx(ctx, tx, of, released) })
}

// Reusable returns the provider's ids of those files that a new message of the number need not upload again.
func (s *Service) Reusable(ctx context.Context, scope postgres.Scope, of accounts.ID, files []ids.Any) (map[ids.Any]string, error) {
	return uploadsOf(ctx, scope, of, files, s.clock.Now().Add(-reuseFor))
}

// Uploaded returns the provider's ids of those files that a number has uploaded and that the provider still has.
func (s *Service) Uploaded(ctx context.Context, scope postgres.Scope, of accounts.ID, files []ids.Any) (map[ids.Any]string, error) {
	return uploadsOf(ctx, scope, of, files, s.clock.Now().Add(-uploadLasts))
}

// Progress is how far the uploads for a message have come.
type Progress struct {
	// Tries counts those that failed; nil if the message does not wait for an upload.
	Tries *int
	// UploadedAt is when the number last uploaded one of the files, for whichever message; nil if that is not known any more.
	UploadedAt *time.Time
}

// Progress returns how far the uploads of files for a message of a number have come.
func (s *Service) Progress(
	ctx context.Context, scope postgres.Scope, of accounts.ID, message ids.Any, files []ids.Any,
) (Progress, error) {
	return progressOf(ctx, scope, of, message, files)
}

// uploadAll uploads the files of a message that its number has not uploaded yet.
func (s *Service) uploadAll(ctx context.Context, org orgs.ID, one *transfer) outcome {
	for _, file := range one.up.Files {
		if err := s.upload(ctx, org, one, file); err != nil {
			failed, known := provider.As(err)
			again := !known || failed.Class == provider.Retryable || failed.Class == provider.RateLimited
			return outcome{err: err, gone: errors.Is(err, bucket.ErrNotFound) || !again}
		}
	}
	return outcome{}
}

// upload uploads a file, unless the number has. Messages of one number that have the same file wait for one upload:
// a lane is worked by one process.
func (s *Service) upload(ctx context.Context, org orgs.ID, one *transfer, file LibraryFile) error {
	of := one.up.AccountID
	_, err, shared := s.uploads.Do(of.String()+file.ID.String(), func() (any, error) {
		known, err := s.Reusable(ctx, s.work.Of(org), of, []ids.Any{file.ID})
		if err != nil || known[file.ID] != "" {
			return nil, err
		}
		if s.bucket == nil {
			return nil, errors.New("PARLEY_MEDIA_BUCKET is not set")
		}
		if err := s.bucket.Exists(ctx, file.Key); err != nil {
			return nil, err
		}
		id, err := s.provider.UploadMedia(ctx, *one.number, provider.File{
			Name: file.Filename, MIMEType: file.MIMEType, Size: file.Size,
			Open: func() (io.ReadCloser, error) { return s.bucket.Get(ctx, file.Key) },
		})
		if err != nil {
			return nil, err
		}
		now := s.clock.Now()
		return postgres.InTx(ctx, s.work, org, func(tx *postgres.Tx) (any, error) {
			return nil, writeUpload(ctx, tx, of, file.ID, id, now, now.Add(-uploadLasts))
		})
	})
	if shared && ctx.Err() == nil && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)) {
		return s.upload(ctx, org, one, file) // the time of the message that made the upload is over, that of this one is not
	}
	return err
}

// effectOf is the first failure that says something about the number, or nil.
func effectOf(results []*result) *provider.Error {
	for _, one := range results {
		if failed, known := provider.As(one.Value.err); known && failed.Effect != "" {
			return failed
		}
	}
	return nil
}

// settleUploads gives messages back to their owner, and has failed uploads tried again.
func (s *Service) settleUploads(ctx context.Context, tx *postgres.Tx, of accounts.Account, results []*result) error {
	var released []Released
	var again []*waiting
	for _, one := range results {
		counted := *one.Task.up // a settlement that failed is made again with the same task
		w := &counted
		if one.Outcome == lanes.Returned && one.Value.err == nil {
			released = append(released, w.released(nil))
			continue
		}
		if one.Outcome == lanes.Unknown && one.Fault == nil {
			continue // the process stops: the lane puts the row back at once
		}
		w.Tries++
		var asked time.Duration
		if failed, known := provider.As(one.Value.err); known {
			asked = failed.RetryAfter
		}
		retry, more := provider.RetryAt(w.Tries, asked, s.clock.Now())
		over := one.Value.gone || !more
		s.logger.WarnContext(ctx, "media.upload_failed",
			"org", tx.Org(), "message", w.ID, "tries", w.Tries, "over", over, "error", errors.Join(one.Value.err, one.Fault))
		if over {
			released = append(released, w.released(uploadFailure(one.Value.err)))
			continue
		}
		one.Answer = lanes.Answer[outcome]{RetryAt: retry}
		again = append(again, w)
	}
	if err := s.handBackTx(ctx, tx, of, released); err != nil {
		return err
	}
	return countTries(ctx, tx, again)
}

// uploadFailure is the failure of a message whose file cannot be uploaded.
func uploadFailure(err error) *provider.Error {
	failed := &provider.Error{Code: provider.MediaUploadFailed, Title: "The file could not be uploaded to the messaging network."}
	if errors.Is(err, bucket.ErrNotFound) {
		failed.Title = "The file was deleted from the library before it was uploaded to the messaging network."
	}
	if refused, known := provider.As(err); known {
		failed.Title, failed.ProviderCode = failed.Title+" "+refused.Words(), refused.ProviderCode
		if refused.Code != "" && refused.Code != fault.UpstreamError {
			failed.Code = refused.Code
		}
	}
	return failed
}

func (s *Service) handBackTx(ctx context.Context, tx *postgres.Tx, of accounts.Account, released []Released) error {
	if len(released) == 0 {
		return nil
	}
	if err := s.owner.Sends(ctx, tx, of, released); err != nil {
		return err
	}
	return endWaiting(ctx, tx, released)
}

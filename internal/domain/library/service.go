package library

import (
	"context"
	"io"
	"time"

	"github.com/parley-chat/parley/internal/domain/media"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/paging"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// deletedAfter is how long the content of a deleted file is kept, because messages that were accepted before may wait
// for its upload.
const deletedAfter = time.Hour

// Service is the library files of one cell.
type Service struct {
	db    *postgres.DB
	clock clock.Clock
	orgs  *orgs.Service
	media *media.Service
}

// New builds the service.
func New(db *postgres.DB, clock clock.Clock, orgs *orgs.Service, media *media.Service) *Service {
	return &Service{db: db, clock: clock, orgs: orgs, media: media}
}

// Receive stores the content of a file. Call Create or Discard next; the content of a process that dies before is
// deleted after an hour.
func (s *Service) Receive(ctx context.Context, org orgs.ID, filename string, content io.Reader) (Upload, error) {
	if !s.media.Stores() {
		return Upload{}, &fault.Error{
			Code: fault.ServiceUnavailable, RetryAfter: time.Hour,
			Message: "This installation stores no files. Send files by `link`, or ask its operator to set PARLEY_MEDIA_BUCKET.",
		}
	}
	file, err := inspect(filename, content)
	if err != nil {
		return Upload{}, err
	}
	file.upload.Key, file.upload.Size, err = s.media.Store(ctx, org, file.stored(), file)
	if err != nil {
		return file.upload, file.refusal(err)
	}
	file.upload.SHA256 = file.sum.Sum(nil)
	return file.upload, nil
}

// Discard has the content of an upload deleted, unless Create has made it part of the library.
func (s *Service) Discard(ctx context.Context, org orgs.ID, upload Upload) error {
	if upload.Key == "" {
		return nil
	}
	return s.media.Discard(ctx, org, upload.Key)
}

// Create makes an upload part of the library.
func (s *Service) Create(ctx context.Context, org orgs.ID, draft Draft) (File, error) {
	made := File{
		Type: draft.Upload.Type, MIMEType: draft.Upload.MIMEType, Size: draft.Upload.Size, Filename: draft.Upload.Filename,
		Key: draft.Upload.Key,
	}
	return postgres.InTx(ctx, s.db, org, func(tx *postgres.Tx) (_ File, err error) {
		if made.TeamID, err = s.orgs.TeamTx(ctx, tx, draft.TeamID); err != nil {
			return File{}, err
		}
		made.ID = ids.New[kind](s.clock.Now())
		if err := insertFile(ctx, tx, made); err != nil {
			return File{}, err
		}
		return made, s.media.KeepTx(ctx, tx, made.Key)
	})
}

// Get returns one file.
func (s *Service) Get(ctx context.Context, org orgs.ID, id ID) (File, error) {
	file, err := fileByID(ctx, s.db.Of(org), id)
	return file, postgres.NotFound(err, "library file", "")
}

// List returns a page of files, newest first.
func (s *Service) List(ctx context.Context, org orgs.ID, slice paging.Slice[ID]) (paging.Page[File, ID], error) {
	return listFiles(ctx, s.db.Of(org), slice)
}

// Delete removes a file from the library. Its content and its URL are gone after an hour.
func (s *Service) Delete(ctx context.Context, org orgs.ID, id ID) (File, error) {
	return postgres.InTx(ctx, s.db, org, func(tx *postgres.Tx) (File, error) {
		file, err := deleteFile(ctx, tx, id)
		if err != nil {
			return File{}, postgres.NotFound(err, "library file", "")
		}
		return file, s.media.DeleteLaterTx(ctx, tx, file.Key, s.clock.Now().Add(deletedAfter))
	})
}

// Find returns the files of a team, by their ids. Unknown files, and those of other teams, are left out.
func (s *Service) Find(ctx context.Context, scope postgres.Scope, team orgs.TeamID, asked []ID) (map[ID]File, error) {
	return filesOf(ctx, scope, team, asked)
}

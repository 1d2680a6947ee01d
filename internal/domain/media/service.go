package media

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/bucket"
	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/lanes"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/provider"
)

// Service is the files of one cell.
type Service struct {
	db, work *postgres.DB
	clock    clock.Clock
	lanes    *lanes.Lanes
	accounts *accounts.Service
	provider provider.MediaStore
	bucket   *bucket.Bucket
	base     string
	logger   *slog.Logger
	owner    Owner
	// uploads joins uploads of the same file for the same number.
	uploads singleflight.Group
}

// Deps are the dependencies of the service.
type Deps struct {
	// DB is the pool of requests, Work that of background work.
	DB, Work *postgres.DB
	Clock    clock.Clock
	Lanes    *lanes.Lanes
	Accounts *accounts.Service
	Provider provider.MediaStore
	// Bucket is where files are stored; nil stores none.
	Bucket *bucket.Bucket
	// BaseURL is the start of the files' public URLs.
	BaseURL string
	Logger  *slog.Logger
}

// New builds the service.
func New(deps Deps) *Service {
	s := &Service{
		db: deps.DB, work: deps.Work, clock: deps.Clock, lanes: deps.Lanes, accounts: deps.Accounts, provider: deps.Provider,
		bucket: deps.Bucket, base: deps.BaseURL, logger: deps.Logger,
	}
	lanes.Register(s.lanes, s.kind())
	return s
}

// OwnedBy sets who gets the outcomes of downloads and uploads. Only wiring calls it.
func (s *Service) OwnedBy(owner Owner) { s.owner = owner }

// Stores tells whether files are stored at all.
func (s *Service) Stores() bool { return s.bucket != nil }

// Path is the path of a file below the base URL.
const Path = "/m/"

// URL is the public URL of a file.
func (s *Service) URL(key string) string { return s.base + Path + key }

// OpenLaneTx makes the lane of a number that is being connected.
func (s *Service) OpenLaneTx(ctx context.Context, tx *postgres.Tx, account accounts.Account) error {
	return s.lanes.OpenTx(ctx, tx, LaneKind, laneOf(account.ID))
}

// FetchTx has files of a number's messages fetched, and their events wait for it.
func (s *Service) FetchTx(ctx context.Context, tx *postgres.Tx, of accounts.Account, files []File) error {
	if len(files) == 0 {
		return nil
	}
	if err := insertDownloads(ctx, tx, of.ID, files, s.clock.Now().Add(waitsFor)); err != nil {
		return err
	}
	for _, file := range files {
		if err := s.lanes.AddTx(ctx, tx, LaneKind, laneOf(of.ID), lanes.Row{ID: file.MessageID}); err != nil {
			return err
		}
	}
	return nil
}

// ReleaseLate records the events that have waited for their files long enough, and returns how many.
// Every process that does background work calls it every 20 s.
func (s *Service) ReleaseLate(ctx context.Context) (released int, err error) {
	numbers, err := lateNumbers(ctx, s.work, s.clock.Now().Add(lookAhead))
	if err != nil {
		return 0, err
	}
	var failed []error
	for _, one := range numbers {
		count, err := postgres.InTx(ctx, s.work, one.OrgID, func(tx *postgres.Tx) (int, error) { return s.releaseTx(ctx, tx, one.AccountID) })
		if code := fault.Of(err); code == fault.ServiceUnavailable || code == fault.ResourceNotFound {
			continue // the organization is being moved, or the number is purged
		}
		released += count
		failed = append(failed, err)
	}
	return released, errors.Join(failed...)
}

func (s *Service) releaseTx(ctx context.Context, tx *postgres.Tx, of accounts.ID) (int, error) {
	account, err := s.accounts.GetTx(ctx, tx, of)
	if err != nil {
		return 0, err
	}
	late, err := lateOf(ctx, tx, of, s.clock.Now().Add(lookAhead))
	if err != nil {
		return 0, err
	}
	outcomes := postgres.Each(late, func(d download) Outcome { return d.outcome(Late) })
	if _, err := s.owner.Files(ctx, tx, account, outcomes); err != nil {
		return 0, err
	}
	return len(late), endEventWaits(ctx, tx, late)
}

// DeleteTx has files deleted from the bucket.
func (s *Service) DeleteTx(ctx context.Context, tx *postgres.Tx, keys []string) error {
	return insertDeletions(ctx, tx, keys, s.clock.Now())
}

// DeleteLaterTx has a file deleted from the bucket at that time.
func (s *Service) DeleteLaterTx(ctx context.Context, tx *postgres.Tx, key string, at time.Time) error {
	return insertDeletions(ctx, tx, []string{key}, at)
}

// abandonedAfter is when a stored file that nobody kept is deleted. It is longer than storing it may take.
const abandonedAfter = time.Hour

// Store writes a file to the bucket, and returns its key and size. The file is deleted after an hour unless KeepTx is
// called: a process that dies in between leaves nothing behind.
func (s *Service) Store(ctx context.Context, org orgs.ID, file bucket.File, content io.Reader) (key string, size int64, err error) {
	key = NewKey()
	_, err = postgres.InTx(ctx, s.db, org, func(tx *postgres.Tx) (struct{}, error) {
		return struct{}{}, s.DeleteLaterTx(ctx, tx, key, s.clock.Now().Add(abandonedAfter))
	})
	if err != nil {
		return "", 0, err
	}
	size, err = s.bucket.Put(ctx, key, file, content)
	return key, size, err
}

// KeepTx keeps a file that Store wrote.
func (s *Service) KeepTx(ctx context.Context, tx *postgres.Tx, key string) error {
	kept, err := keepFile(ctx, tx, key)
	if err == nil && !kept {
		return fault.Unavailable(time.Second, errors.New("the file was abandoned before it was kept"))
	}
	return err
}

// Discard has a file that Store wrote deleted now, unless it was kept.
func (s *Service) Discard(ctx context.Context, org orgs.ID, key string) error {
	_, err := postgres.InTx(ctx, s.db, org, func(tx *postgres.Tx) (struct{}, error) {
		return struct{}{}, hastenDeletion(ctx, tx, key, s.clock.Now())
	})
	return err
}

// deleteAgainAfter is longer than a download may take.
const deleteAgainAfter = callTimeout + 5*time.Minute

// deleteFor is how long one DeleteDue deletes. It is less than the time that the look after a cell has.
const deleteFor = 8 * time.Second

// DeleteDue deletes files that are to be deleted, for at most a few seconds, and returns how many. Every process that does
// background work calls it every 20 s.
func (s *Service) DeleteDue(ctx context.Context) (count int, err error) {
	if s.bucket == nil {
		return 0, nil
	}
	ctx = postgres.WithBudget(ctx, deleteFor)
	for more := true; more && err == nil; {
		var deleted int
		deleted, more, err = s.deleteSome(ctx)
		count += deleted
	}
	return count, err
}

// deleteSome deletes a portion of the files. It tells that there are more if all of the portion could be deleted.
func (s *Service) deleteSome(ctx context.Context) (count int, more bool, err error) {
	due, err := dueDeletions(ctx, s.work, s.clock.Now())
	if err != nil {
		return 0, false, err
	}
	var failed []error
	for _, one := range due {
		if postgres.OverBudget(ctx) {
			return count, false, errors.Join(failed...)
		}
		if err := s.bucket.Delete(ctx, one.Key); err != nil {
			failed = append(failed, err)
			continue
		}
		_, err := postgres.InTx(ctx, s.work, one.OrgID, func(tx *postgres.Tx) (struct{}, error) {
			return struct{}{}, endDeletion(ctx, tx, one, s.clock.Now().Add(deleteAgainAfter))
		})
		if fault.Of(err) == fault.ServiceUnavailable {
			continue // the organization is being moved
		}
		failed, count = append(failed, err), count+1
	}
	return count, len(due) > 0 && count == len(due), errors.Join(failed...)
}

// Purge closes the lane of a number that was disconnected, and deletes what is to be fetched for it. Its files go with
// its messages.
func (s *Service) Purge(ctx context.Context, org orgs.ID, account accounts.Account, from ids.Any) error {
	_, err := postgres.InTx(ctx, s.work, org, func(tx *postgres.Tx) (struct{}, error) {
		return struct{}{}, s.lanes.CloseTx(ctx, tx, laneOf(account.ID))
	})
	if err != nil {
		return err
	}
	return s.purge(ctx, org, account, sqlPurge("media_downloads"), from)
}

// PurgeWaiting deletes the rows of messages that wait for uploads. Purge has closed their lane.
func (s *Service) PurgeWaiting(ctx context.Context, org orgs.ID, account accounts.Account, from ids.Any) error {
	return s.purge(ctx, org, account, sqlPurge("media_waiting"), from)
}

// PurgeUploads deletes the provider's ids of files that the number uploaded.
func (s *Service) PurgeUploads(ctx context.Context, org orgs.ID, account accounts.Account, from ids.Any) error {
	return s.purge(ctx, org, account, sqlPurgeUploads, from)
}

func (s *Service) purge(ctx context.Context, org orgs.ID, account accounts.Account, sql string, from ids.Any) error {
	return postgres.DeleteInPortions(ctx, s.work, org, sql, postgres.Args{argAccount: account.ID, "after": from})
}

package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/parley-chat/parley/internal/cell"
	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/platform/sealed"
	"github.com/parley-chat/parley/internal/platform/telemetry"
)

// keyCheck is a known text that each cell keeps sealed. The first process with a master key writes it. The text tells
// whether the cell belongs to the simulated network of `parley dev`.
type keyCheck struct {
	db *postgres.DB
	// setting is the name of the setting with the cell's URL.
	setting string
	box     *sealed.Box
	// dev opens what was sealed under the published key.
	dev     *sealed.Box
	network network
}

const (
	sqlKeyCheck       = `SELECT sealed FROM master_key_check`
	sqlWriteKeyCheck  = `INSERT INTO master_key_check (sealed) VALUES (@sealed) ON CONFLICT DO NOTHING`
	sqlResealKeyCheck = `
INSERT INTO master_key_check (sealed) VALUES (@sealed)
ON CONFLICT (only_row) DO UPDATE SET sealed = EXCLUDED.sealed`
)

func newKeyCheck(db *postgres.DB, setting string, ring *sealed.Keyring, network network) (*keyCheck, error) {
	if ring == nil {
		return nil, nil //nolint:nilnil // a command without a master key
	}
	published, err := sealed.NewKeyring([]string{DevMasterKey()})
	if err != nil {
		return nil, err
	}
	check := &keyCheck{db: db, setting: setting, network: network}
	if check.dev, err = published.Box(keyCheckPurpose); err != nil {
		return nil, err
	}
	check.box, err = ring.Box(keyCheckPurpose)
	return check, err
}

const keyCheckPurpose = "key check"

// read opens the text, "" if there is none yet. It returns an error if another key sealed it, or if the cell belongs to
// another network.
func (k *keyCheck) read(ctx context.Context) (text string, err error) {
	found, err := postgres.One[[]byte](ctx, k.db.System("the check of the master key"), sqlKeyCheck, nil)
	if errors.Is(err, postgres.ErrNoRow) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	_, notDev := k.dev.Open(found, nil)
	opened, err := k.box.Open(found, nil)
	text = string(opened)
	switch {
	case err != nil && notDev == nil:
		return "", errMadeByDev(k.setting)
	case err != nil || text != realNetwork && text != devNetwork:
		return "", fmt.Errorf("the check of the master key: %w", sealed.ErrOtherKey)
	default:
		return text, k.network.refuses(text, notDev == nil, k.setting)
	}
}

func (k *keyCheck) write(ctx context.Context, sql, known string) error {
	text, err := k.box.Seal([]byte(known), nil)
	if err != nil {
		return err
	}
	_, err = postgres.InSystemTx(ctx, k.db, "the check of the master key", func(tx *postgres.Tx) (int64, error) {
		return tx.Exec(ctx, sql, postgres.Args{"sealed": text})
	})
	return err
}

// checkKey returns sealed.ErrOtherKey if the master keys do not open what the cell stores: the known text, and a
// value under another key than the newest. fresh tells that the cell has neither: it may get the known text.
func (c *Cell) checkKey(ctx context.Context) (fresh bool, err error) {
	text, err := c.key.read(ctx)
	if err != nil {
		return false, err
	}
	older, err := c.CheckSeal(ctx, c.upkeepDB.System("whether the master key opens secrets and tokens"))
	return err == nil && text == "" && !older, err
}

// writeKey gives a fresh cell its known text.
func (c *Cell) writeKey(ctx context.Context) error {
	if err := c.key.write(ctx, sqlWriteKeyCheck, c.key.network.text()); err != nil {
		return err
	}
	_, err := c.key.read(ctx) // another process may have been first, with another key
	return err
}

// CheckKeys checks the master keys in every cell, for a command; it passes over cells without tables. With write,
// fresh cells get a known text if no cell refuses the keys.
func (c *Cells) CheckKeys(ctx context.Context, write bool) error {
	var unwritten []*Cell
	err := c.Each(func(one *Cell) error {
		if one.key == nil {
			return nil
		}
		fresh, err := one.checkKey(ctx)
		switch {
		case postgres.Unmigrated(err):
			return nil
		case err != nil:
			return otherKey(err)
		case fresh && write:
			unwritten = append(unwritten, one)
		default:
			one.admit()
		}
		return nil
	})
	for _, one := range unwritten {
		if err == nil {
			err = otherKey(one.writeKey(ctx))
		}
		if err == nil {
			one.admit()
		}
	}
	return err
}

// otherKey says what to do about sealed.ErrOtherKey.
func otherKey(err error) error {
	if !errors.Is(err, sealed.ErrOtherKey) {
		return err
	}
	return fmt.Errorf("PARLEY_MASTER_KEY does not open what is stored (%w). Add the key that sealed it after the newest, "+
		"separated by a comma; `parley admin reseal` makes it unnecessary", err)
}

const keyTimeout = 5 * time.Second

// awaitKeys checks the master keys until each cell has answered. It returns an error if they are other ones: the
// process then ends. A cell serves no request and does no background work before its check. A fresh cell gets its
// known text when all cells have answered, because one of them may refuse the keys. With holdBy a cell is put on hold
// between its check and its use.
func (c *Cells) awaitKeys(ctx context.Context, holdBy string, logger *slog.Logger) error {
	logger = telemetry.Repeating(logger)
	admit := func(ctx context.Context, one *Cell) error {
		if holdBy != "" {
			if err := one.hold(ctx, holdBy, logger); err != nil {
				return fmt.Errorf("put the cell on hold: %w", err)
			}
		}
		one.admit()
		return nil
	}
	err := c.untilAnswered(ctx, logger, func(ctx context.Context, one *Cell) error {
		fresh, err := one.checkKey(ctx)
		if err == nil && !fresh {
			err = admit(ctx, one)
		}
		return err
	})
	if err != nil || ctx.Err() != nil {
		return err
	}
	return c.untilAnswered(ctx, logger, func(ctx context.Context, one *Cell) error {
		if one.hasKey() {
			return nil
		}
		err := one.writeKey(ctx)
		if err == nil {
			err = admit(ctx, one)
		}
		return err
	})
}

// untilAnswered repeats check for each cell, all at once, until its database answers. It returns
// sealed.ErrOtherKey, and nil when ctx ends.
func (c *Cells) untilAnswered(ctx context.Context, logger *slog.Logger, check func(context.Context, *Cell) error) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, one := range c.all {
		group.Go(func() error {
			for {
				err := func() error {
					ctx, cancel := context.WithTimeout(ctx, keyTimeout)
					defer cancel()
					return check(ctx, one)
				}()
				switch {
				case errors.Is(err, sealed.ErrOtherKey) || errors.Is(err, errOtherNetwork):
					one.refusal.Store(new(otherKey(err).Error()))
					return fmt.Errorf("cell %s: %w", one.Name, otherKey(err))
				case err == nil || ctx.Err() != nil:
					return nil //nolint:nilerr // the process stops
				}
				logger.WarnContext(ctx, "master_key.not_checked", "cell", one.Name, "error", err)
				select {
				case <-ctx.Done():
				case <-time.After(clockFirst):
				}
			}
		})
	}
	return group.Wait()
}

// admit lets the pools of requests and background work give connections.
func (c *Cell) admit() { c.admitted.Do(func() { close(c.keyed) }) }

// hasKey tells that the master key was checked.
func (c *Cell) hasKey() bool {
	select {
	case <-c.keyed:
		return true
	default:
		return false
	}
}

// Resealed is the result of Reseal in one cell.
type Resealed = cell.Resealed

// Reseal seals the tokens and signing secrets of all cells under the newest master key, then the known texts:
// these last, and only if nothing is left under another key. It calls progress after each transaction, and
// returns the result of each cell; Frozen then has only organizations that are being moved.
func (c *Cells) Reseal(ctx context.Context, by audit.Principal, progress func(cell string, so Resealed)) (map[string]Resealed, error) {
	all, left := map[string]Resealed{}, 0
	err := c.Each(func(one *Cell) error {
		done, err := one.Reseal(ctx, by, func(so Resealed) { progress(one.Name, so) })
		if err != nil {
			return otherKey(err)
		}
		for i, org := range slices.Backward(done.Frozen) {
			home, err := c.Directory.HomeOf(ctx, org)
			if err != nil {
				return err
			}
			if home.Cell != one.Name { // it has moved away: its copy here is purged soon
				done.Frozen = slices.Delete(done.Frozen, i, i+1)
			}
		}
		all[one.Name], left = done, left+len(done.Frozen)
		return nil
	})
	if err != nil || left > 0 {
		return all, err
	}
	return all, c.Each(func(one *Cell) error {
		text, err := one.key.read(ctx)
		if err != nil {
			return err
		}
		return one.key.write(ctx, sqlResealKeyCheck, cmp.Or(text, one.key.network.text()))
	})
}

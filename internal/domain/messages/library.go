package messages

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/library"
	"github.com/parley-chat/parley/internal/domain/media"
	"github.com/parley-chat/parley/internal/domain/messages/content"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/lanes"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/provider"
)

// A message with library files is queued only when its number has uploaded all of them to the provider. Until then it
// waits in the media lane of the number, and may be overtaken. docs/flows.md shows the way.

// fileFinder finds library files of the number's team.
type fileFinder func(asked []library.ID) (map[library.ID]library.File, error)

// lockTx writes what a failure says about the number, and locks the states of messages in the order of their ids.
func (s *Service) lockTx(ctx context.Context, tx *postgres.Tx, of accounts.Account, all []ids.Any, about *provider.Error) error {
	if err := s.applyEffectsTx(ctx, tx, of.ID, nil, accountFailure{failed: about, at: s.clock.Now()}); err != nil {
		return err
	}
	_, err := lockStates(ctx, tx, postgres.Each(all, ids.From[kind]))
	return err
}

func (s *Service) libraryOf(ctx context.Context, scope postgres.Scope, from accounts.Account) fileFinder {
	return func(asked []library.ID) (map[library.ID]library.File, error) {
		return s.library.Find(ctx, scope, from.TeamID, asked)
	}
}

// once reads each file once, because most of many drafts have the same.
func once(find fileFinder) fileFinder {
	known := map[library.ID]library.File{}
	asked := map[library.ID]bool{}
	return func(wanted []library.ID) (map[library.ID]library.File, error) {
		var fresh []library.ID
		for _, id := range wanted {
			if !asked[id] {
				asked[id], fresh = true, append(fresh, id)
			}
		}
		if len(fresh) == 0 {
			return known, nil
		}
		found, err := find(fresh)
		maps.Copy(known, found)
		return known, err
	}
}

// attach finds the library files of a draft, and refuses those that the number cannot send.
func (p *prepared) attach(find fileFinder) error {
	if len(p.Content.Library) == 0 {
		return nil
	}
	asked := map[string]library.ID{}
	for _, one := range p.Content.Library {
		var id library.ID
		if id.UnmarshalText([]byte(one.ID)) == nil {
			asked[one.ID] = id
		}
	}
	found, err := find(slices.Collect(maps.Values(asked)))
	if err != nil {
		return err
	}
	names, refused := map[string]string{}, len(p.refusals)
	for _, one := range p.Content.Library {
		id, wellFormed := asked[one.ID]
		file, known := found[id]
		switch {
		case !wellFormed: // it fits the pattern of ids, and stands for a number that is too large
			p.refuse(fault.Invalid(one.Param, "must be the id of a library file; got "+one.ID))
		case !known:
			p.refuse(unknownFile(one))
		default:
			p.refuse(fault.As(file.CarriedBy(one.Type, one.Param)))
			p.files, names[one.ID] = append(p.files, file), valueOf(file.Filename)
		}
	}
	if len(p.refusals) > refused || p.Content.Object == nil {
		return nil
	}
	p.Content, err = p.Content.WithFilenames(names)
	return err
}

func unknownFile(one content.Reference) *fault.Error {
	return fault.New(fault.MediaNotFound, "The number's team has no library file %s. Upload it with POST /media, or send a `link`.", one.ID).
		At(one.Param)
}

// attachTx writes the files of media messages, and returns the files that each message must wait for.
func (s *Service) attachTx(
	ctx context.Context, tx *postgres.Tx, from accounts.Account, accepted []int, drafts []*prepared, made []Message,
) (map[ID][]media.LibraryFile, error) {
	var asked []ids.Any
	var changed []*Message
	for i, at := range accepted {
		for _, file := range drafts[at].files {
			asked = append(asked, file.ID.Any())
		}
		if drafts[at].Content.Media != nil && len(drafts[at].files) > 0 {
			file := drafts[at].files[0]
			made[i].File = File{MediaState: new(mediaReady), MediaType: &file.MIMEType, MediaSize: &file.Size, MediaKey: &file.Key}
			changed = append(changed, &made[i])
		}
	}
	waiting := map[ID][]media.LibraryFile{}
	if len(asked) == 0 {
		return waiting, nil
	}
	if err := writeFiles(ctx, tx, changed); err != nil {
		return nil, err
	}
	uploaded, err := s.media.Reusable(ctx, tx, from.ID, asked)
	if err != nil {
		return nil, err
	}
	for i, at := range accepted {
		for _, file := range drafts[at].files {
			if uploaded[file.ID.Any()] == "" {
				waiting[made[i].ID] = append(waiting[made[i].ID], file.Sendable())
			}
		}
	}
	return waiting, nil
}

// queueTx queues a message in the lane of its number or, if it waits for uploads, in the number's media lane.
func (s *Service) queueTx(
	ctx context.Context, tx *postgres.Tx, from accounts.Account, message Message, priority int, files []media.LibraryFile,
) error {
	if len(files) > 0 {
		return s.media.UploadTx(ctx, tx, from, []media.Waiting{{MessageID: message.ID.Any(), Priority: priority, Files: files}})
	}
	return s.lanes.AddTx(ctx, tx, laneKind, from.ID.Any(),
		lanes.Row{ID: message.ID.Any(), Key: message.ContactID.Any(), Priority: priority})
}

// uploadedTx queues messages whose files were uploaded, and fails those whose files cannot be.
func (s *Service) uploadedTx(ctx context.Context, tx *postgres.Tx, of accounts.Account, released []media.Released) error {
	all := postgres.Each(released, func(r media.Released) ID { return ids.From[kind](r.MessageID) })
	messages, err := lockMessages(ctx, tx, of.ID, all)
	if err != nil {
		return err
	}
	b := newBook(s, of)
	for i, one := range released {
		message := messages[all[i]]
		if message == nil || message.Status != Queued {
			continue // it was erased or failed meanwhile
		}
		if one.Failed != nil {
			b.fail(message, one.Failed.Code, one.Failed.Title, one.Failed.ProviderCode)
			continue
		}
		if err := s.queueTx(ctx, tx, of, *message, one.Priority, nil); err != nil {
			return err
		}
	}
	return b.writeTx(ctx, tx)
}

// findUploads finds the provider's ids of the library files in messages that are about to be sent.
func (w *sender) findUploads(ctx context.Context, tx *postgres.Tx, rows []begun) error {
	var asked []ids.Any
	for i := range rows {
		library, files, err := libraryFiles(rows[i].Type, rows[i].Content)
		if err != nil {
			return err
		}
		rows[i].library, asked = library, append(asked, files...)
	}
	if len(asked) == 0 {
		return nil
	}
	uploaded, err := w.s.media.Uploaded(ctx, tx, w.id, asked)
	if err != nil {
		return err
	}
	for i := range rows {
		if err := rows[i].attach(uploaded); err != nil {
			return err
		}
	}
	return nil
}

// attach puts the provider's ids of uploaded files into the content that is sent.
func (o *outgoing) attach(uploaded map[ids.Any]string) (err error) {
	if len(o.library) == 0 {
		return nil
	}
	uploads := map[string]string{}
	for _, one := range o.library {
		id, err := fileID(one)
		if err != nil {
			return err
		}
		if uploaded[id] == "" {
			o.lacksFile = true
			return nil
		}
		uploads[one.ID] = uploaded[id]
	}
	o.sendable, err = content.WithUploads(o.Type, o.Content, uploads)
	return err
}

// libraryFiles lists the library files in the content of a send, and their ids.
func libraryFiles(kind string, object json.RawMessage) (all []content.Reference, files []ids.Any, err error) {
	if all, err = content.Library(kind, object); err != nil {
		return nil, nil, err
	}
	for _, one := range all {
		id, err := fileID(one)
		if err != nil {
			return nil, nil, err
		}
		files = append(files, id)
	}
	return all, files, nil
}

func fileID(one content.Reference) (ids.Any, error) {
	var id library.ID
	err := id.UnmarshalText([]byte(one.ID))
	return id.Any(), err
}

// refusedByFile says that an upload is too old to be sent, or nil. The message has waited for weeks.
func (o *outgoing) refusedByFile() *fault.Error {
	if !o.lacksFile {
		return nil
	}
	return fault.New(provider.MediaUploadFailed, "The messaging network does not keep the uploaded file any more. Send the message again.")
}

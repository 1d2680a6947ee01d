package messages_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/library"
	"github.com/parley-chat/parley/internal/domain/media"
	"github.com/parley-chat/parley/internal/domain/messages"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/bucket"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/provider"
	"github.com/parley-chat/parley/internal/testkit/factory"
	"github.com/parley-chat/parley/schema"
)

var pdf = []byte("%PDF-1.7\n a bill \n%%EOF")

// uploaded is a file that a number uploaded to the scripted provider.
type uploaded struct {
	number, name, mimeType string
	data                   []byte
}

// UploadMedia keeps what is uploaded, unless refuseUploads says how it fails.
func (s *script) UploadMedia(_ context.Context, by provider.Number, file provider.File) (string, error) {
	content, err := file.Open()
	if err != nil {
		return "", err
	}
	defer func() { _ = content.Close() }()
	data, err := io.ReadAll(content)
	if err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tries++
	if s.refuseUploads != nil {
		return "", s.refuseUploads
	}
	s.uploads = append(s.uploads, uploaded{number: by.ID, name: file.Name, mimeType: file.MIMEType, data: data})
	return fmt.Sprintf("77%04d", len(s.uploads)), nil
}

func (s *script) uploadsBefore() (made []uploaded, tries int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append(made, s.uploads...), s.tries
}

func (s *script) refuse(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuseUploads = err
}

// libraryFile adds a file to the library.
func (s *fixture) libraryFile(t *testing.T, name string, data []byte) library.File {
	t.Helper()
	received, err := s.Library.Receive(t.Context(), s.org, name, bytes.NewReader(data))
	require.NoError(t, err)
	file, err := s.Library.Create(t.Context(), s.org, library.Draft{Upload: received})
	require.NoError(t, err)
	return file
}

// sendFile sends a library file as a document.
func (s *fixture) sendFile(t *testing.T, to string, file library.File) (messages.Message, error) {
	t.Helper()
	return s.Messages.Send(t.Context(), s.org, s.account, messages.Terms{MonthlyLimit: 1_000_000}, messages.Draft{
		To: to, Source: messages.FromAPI, Content: parsedContent(t, provider.TypeDocument, fmt.Sprintf(`{"id":"%s"}`, file.ID)),
	})
}

func (s *fixture) mustSendFile(t *testing.T, to string, file library.File) messages.Message {
	t.Helper()
	made, err := s.sendFile(t, to, file)
	require.NoError(t, err)
	return made
}

func TestLibrary_SameFileInManyMessages_UploadedOncePerNumber(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	file := s.libraryFile(t, "bill.pdf", pdf)
	const numbers = 20
	senders := []*fixture{s}
	for len(senders) < numbers {
		other := *s
		other.account = s.Account(t, s.org)
		senders = append(senders, &other)
	}
	send := func() {
		var all []messages.Message
		for n, sender := range senders {
			for i := range 3 {
				all = append(all, sender.mustSendFile(t, fmt.Sprintf("+35191%07d", 10*n+i), file))
			}
		}
		for n := range all {
			senders[n/3].awaitStatus(t, all[n], messages.Sent)
		}
	}
	send()
	made, _ := s.net.uploadsBefore()
	require.Len(t, made, numbers)
	byNumber := map[string]bool{}
	for _, one := range made {
		byNumber[one.number] = true
		require.Equal(t, uploaded{number: one.number, name: "bill.pdf", mimeType: "application/pdf", data: pdf}, one)
	}
	require.Len(t, byNumber, numbers)

	require.NoError(t, s.DB.EnsurePartitions(t.Context(), schema.Partitioned(), s.Clock.Now().Add(30*24*time.Hour)))
	s.Pass(t, 28*24*time.Hour)
	send()
	made, _ = s.net.uploadsBefore()
	require.Len(t, made, numbers, "the uploads still last")

	s.Pass(t, 2*24*time.Hour)
	send()
	made, _ = s.net.uploadsBefore()
	require.Len(t, made, 2*numbers, "the provider keeps a file for 30 days")
}

func TestLibrary_Send_ProviderGetsItsOwnIDAndTheName(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	file := s.libraryFile(t, "bill.pdf", pdf)
	made := s.mustSendFile(t, "+351910000001", file)
	require.Equal(t, "ready", *made.MediaState)
	s.awaitStatus(t, made, messages.Sent)
	calls := s.net.calls("+351910000001")
	require.Len(t, calls, 1)
	require.JSONEq(t, `{"id":"770001","filename":"bill.pdf"}`, string(calls[0].Content))
	stored := s.get(t, made)
	require.JSONEq(t, fmt.Sprintf(`{"id":"%s","filename":"bill.pdf"}`, file.ID), string(stored.Content))
	url := s.Messages.FileURL(stored)
	require.NotNil(t, url)
	data, err := s.download(t, *url)
	require.NoError(t, err)
	require.Equal(t, pdf, data)
	body := s.bodyOf(t, "message.sent")
	message := body["data"].(fields)["message"].(fields)
	require.Equal(t, *url, message["media_url"])
	require.Equal(t, *url, message["document"].(fields)["link"])
}

func TestLibrary_UploadFails_TriedAgainThenMessageFails(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	file := s.libraryFile(t, "bill.pdf", pdf)
	s.net.refuse(&provider.Error{Class: provider.Retryable, Code: fault.UpstreamError, Title: "Down."})
	made := s.mustSendFile(t, "+351910000001", file)
	for tries := 1; tries < 5; tries++ {
		s.await(t, "a failed try", func() bool {
			return s.count(t, `SELECT coalesce(max(tries), 0) FROM media_waiting WHERE org_id = @org_id`, nil) == tries
		})
		require.Equal(t, messages.Queued, s.get(t, made).Status)
		s.Pass(t, 31*time.Minute)
	}
	failed := s.awaitStatus(t, made, messages.Failed)
	require.Equal(t, provider.MediaUploadFailed, *failed.ErrorCode)
	require.Empty(t, s.net.calls("+351910000001"))
	require.Equal(t, 1, s.countEvents(t, "message.status"))
	require.Zero(t, s.count(t, `SELECT count(*) FROM media_waiting WHERE org_id = @org_id`, nil))

	s.net.refuse(&provider.Error{Class: provider.Terminal, Code: provider.MediaUploadFailed, Title: "Bad file.", ProviderCode: new(131053)})
	_, before := s.net.uploadsBefore()
	failed = s.awaitStatus(t, s.mustSendFile(t, "+351910000002", file), messages.Failed)
	_, after := s.net.uploadsBefore()
	require.Equal(t, before+1, after, "what the provider refuses is not tried again")
	require.Equal(t, 131053, *failed.ProviderCode)

	s.net.refuse(nil)
	s.awaitStatus(t, s.mustSendFile(t, "+351910000003", file), messages.Sent)
}

// uploadWait waits until the uploads of a message have failed that often, and returns how long the message waits for the next try.
func (s *fixture) uploadWait(t *testing.T, of messages.Message, failures int) time.Duration {
	t.Helper()
	s.await(t, fmt.Sprintf("%d failed uploads of %s", failures, of.ID), func() bool {
		return s.count(t, `SELECT coalesce(max(tries), 0) FROM media_waiting WHERE org_id = @org_id`, nil) == failures
	})
	due, err := postgres.One[time.Time](t.Context(), s.DB.System("test"), `SELECT due_at FROM lane_rows WHERE id = @id`, postgres.Args{"id": of.ID})
	require.NoError(t, err)
	return due.Sub(s.Clock.Now())
}

func TestLibrary_UploadFails_RetriedAfter1And2And4And8Minutes(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.net.refuse(&provider.Error{Class: provider.Retryable, Code: fault.UpstreamError, Title: "Down."})
	made := s.mustSendFile(t, "+351910000001", s.libraryFile(t, "bill.pdf", pdf))
	for i, step := range []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute} {
		wait := s.uploadWait(t, made, i+1)
		require.InDelta(t, step, wait, float64(step/10), "the wait after failure %d is %s", i+1, wait)
		s.Pass(t, wait+time.Millisecond) // the clock has whole milliseconds
	}
	failed := s.awaitStatus(t, made, messages.Failed)
	require.Equal(t, provider.MediaUploadFailed, *failed.ErrorCode)
	_, tries := s.net.uploadsBefore()
	require.Equal(t, 5, tries)
}

func TestLibrary_UploadRetryAfter_HonouredUpTo15Minutes(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	for asked, want := range map[time.Duration]time.Duration{10 * time.Minute: 10 * time.Minute, 24 * time.Hour: 15 * time.Minute} {
		of := s.beside(t)
		of.net.refuse(&provider.Error{Class: provider.RateLimited, Code: fault.UpstreamError, RetryAfter: asked})
		made := of.mustSendFile(t, "+351910000001", of.libraryFile(t, "bill.pdf", pdf))
		require.Equal(t, want, of.uploadWait(t, made, 1), "Retry-After of %s", asked)
	}
}

// TestLibrary_SharedUploadRetried_AllWaitingMessagesSent: two messages wait for the same file. Its upload fails once, and both are sent
// after one upload. Their stories say so.
func TestLibrary_SharedUploadRetried_AllWaitingMessagesSent(t *testing.T) {
	t.Parallel()
	s := newIdleFixture(t)
	file := s.libraryFile(t, "bill.pdf", pdf)
	s.net.refuse(&provider.Error{Class: provider.Retryable, Code: fault.UpstreamError, Title: "Down."})
	all := []messages.Message{s.mustSendFile(t, "+351910000001", file), s.mustSendFile(t, "+351910000002", file)}
	uploads := func(of messages.Message) media.Progress {
		story, err := s.Messages.Story(t.Context(), s.org, s.account, of.ID)
		require.NoError(t, err)
		require.NotNil(t, story.Uploads)
		return *story.Uploads
	}
	require.Equal(t, media.Progress{Tries: new(0)}, uploads(all[0]))
	s.Work(t)
	s.await(t, "both messages failed once", func() bool {
		return s.count(t, `SELECT count(*) FROM media_waiting WHERE org_id = @org_id AND tries = 1`, nil) == len(all)
	})
	require.Equal(t, media.Progress{Tries: new(1)}, uploads(all[1]))
	s.net.refuse(nil)
	s.Pass(t, 31*time.Minute)
	for _, one := range all {
		s.awaitStatus(t, one, messages.Sent)
		require.Equal(t, media.Progress{UploadedAt: new(s.Clock.Now())}, uploads(one))
	}
	made, _ := s.net.uploadsBefore()
	require.Len(t, made, 1)
	require.Zero(t, s.count(t, `SELECT count(*) FROM media_waiting WHERE org_id = @org_id`, nil))
}

func TestLibrary_FileDeleted_AcceptedMessagesGoOut(t *testing.T) {
	t.Parallel()
	s := newIdleFixture(t)
	file := s.libraryFile(t, "bill.pdf", pdf)
	made := s.mustSendFile(t, "+351910000001", file)
	_, err := s.Library.Delete(t.Context(), s.org, file.ID)
	require.NoError(t, err)
	_, err = s.sendFile(t, "+351910000002", file)
	require.Equal(t, fault.MediaNotFound, fault.Of(err))
	_, err = s.Media.DeleteDue(t.Context())
	require.NoError(t, err)
	s.Work(t)
	s.awaitStatus(t, made, messages.Sent)

	s.Clock.Move(time.Hour)
	_, err = s.Media.DeleteDue(t.Context())
	require.NoError(t, err)
	_, err = s.Files.Get(t.Context(), file.Key)
	require.ErrorIs(t, err, bucket.ErrNotFound)
}

func TestLibrary_ObjectLost_MessageFails(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	file := s.libraryFile(t, "bill.pdf", pdf)
	require.NoError(t, s.Files.Delete(t.Context(), file.Key))
	failed := s.awaitStatus(t, s.mustSendFile(t, "+351910000001", file), messages.Failed)
	require.Equal(t, provider.MediaUploadFailed, *failed.ErrorCode)
}

func TestLibrary_Moved_WaitingMessageIsSent(t *testing.T) {
	t.Parallel()
	s := newIdleFixture(t)
	file := s.libraryFile(t, "bill.pdf", pdf)
	made := s.mustSendFile(t, "+351910000001", file)
	lanes := s.count(t, `SELECT count(*) FROM lane_rows WHERE id = @id`, postgres.Args{"id": made.ID})
	require.Equal(t, 1, lanes, "a message that waits is in one lane")
	s.RebuildLanes(t, s.org)
	s.Work(t)
	s.awaitStatus(t, made, messages.Sent)
}

func TestLibrary_MessageErased_FileStays(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	file := s.libraryFile(t, "bill.pdf", pdf)
	made := s.awaitStatus(t, s.mustSendFile(t, "+351910000001", file), messages.Sent)
	_, err := s.Contacts.Delete(t.Context(), s.org, s.account, made.ContactID)
	require.NoError(t, err)
	s.await(t, "the message is erased", func() bool { return s.count(t, `SELECT count(*) FROM messages WHERE org_id = @org_id`, nil) == 0 })
	require.Zero(t, s.count(t, `SELECT count(*) FROM media_deletions WHERE org_id = @org_id`, nil))
	data, err := s.download(t, factory.MediaURL+"/m/"+file.Key)
	require.NoError(t, err)
	require.Equal(t, pdf, data)
}

func TestLibrary_OtherTypeOrTeam_Refused(t *testing.T) {
	t.Parallel()
	s := newIdleFixture(t)
	file := s.libraryFile(t, "bill.pdf", pdf)
	send := func(kind string, id any) error {
		_, err := s.Messages.Send(t.Context(), s.org, s.account, messages.Terms{MonthlyLimit: 10}, messages.Draft{
			To: "+351910000001", Source: messages.FromAPI, Content: parsedContent(t, kind, fmt.Sprintf(`{"id":"%s"}`, id)),
		})
		return err
	}
	err := send(provider.TypeImage, file.ID)
	require.Equal(t, fault.InvalidFieldValue, fault.Of(err))
	require.Equal(t, "image.id", fault.As(err).Param)
	other := s.beside(t).libraryFile(t, "bill.pdf", pdf)
	require.Equal(t, fault.MediaNotFound, fault.Of(send(provider.TypeDocument, other.ID)))
	s.exec(t, `INSERT INTO teams (org_id, id, name) VALUES (@org_id, '019a0000-0000-7000-8000-000000000001', 'Second')`, nil)
	s.exec(t, `UPDATE library_files SET team_id = '019a0000-0000-7000-8000-000000000001' WHERE org_id = @org_id`, nil)
	require.Equal(t, fault.MediaNotFound, fault.Of(send(provider.TypeDocument, file.ID)))
}

func TestLibrary_FilesInHeaders_ReplacedWhereTheyAreFiles(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	file := s.libraryFile(t, "picture.png", append([]byte("\x89PNG\r\n\x1a\n"), picture...))
	object := fmt.Sprintf(`{"type":"button","header":{"type":"image","image":{"id":"%[1]s"}},"body":{"text":"%[1]s"},
		"action":{"buttons":[{"type":"reply","reply":{"id":"%[1]s","title":"Yes"}}]}}`, file.ID)
	made, err := s.Messages.Send(t.Context(), s.org, s.account, messages.Terms{MonthlyLimit: 10}, messages.Draft{
		To: "+351910000001", Source: messages.FromAPI, Content: parsedContent(t, provider.TypeInteractive, object),
	})
	require.NoError(t, err)
	s.awaitStatus(t, made, messages.Sent)
	var called struct {
		Header struct{ Image struct{ ID string } }
		Body   struct{ Text string }
		Action struct {
			Buttons []struct{ Reply struct{ ID string } }
		}
	}
	require.NoError(t, json.Unmarshal(s.net.calls("+351910000001")[0].Content, &called))
	require.Equal(t, "770001", called.Header.Image.ID)
	require.Equal(t, file.ID.String(), called.Body.Text)
	require.Equal(t, file.ID.String(), called.Action.Buttons[0].Reply.ID, "a button's id is the caller's own")
}

func TestLibrary_UploadAgesInTheQueue_StillSent(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	file := s.libraryFile(t, "bill.pdf", pdf)
	s.awaitStatus(t, s.mustSendFile(t, "+351910000001", file), messages.Sent)
	require.NoError(t, s.DB.EnsurePartitions(t.Context(), schema.Partitioned(), s.Clock.Now().Add(30*24*time.Hour)))
	s.Pass(t, 29*24*time.Hour-time.Minute)
	s.net.answers(refuses(&provider.Error{Class: provider.Retryable, Delivery: provider.NotSent, Code: fault.UpstreamError, Title: "Down."}))
	made := s.mustSendFile(t, "+351910000002", file)
	s.awaitCalls(t, made, 1)
	s.net.answers(nil)
	s.Pass(t, 2*time.Minute)
	s.awaitStatus(t, made, messages.Sent)
	uploads, _ := s.net.uploadsBefore()
	require.Len(t, uploads, 1, "the message was accepted while the upload could be used again")
}

func TestLibrary_TokenExpired_MessageAndNumberSaySo(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	file := s.libraryFile(t, "bill.pdf", pdf)
	expired := s.failure(t, 190)
	s.net.refuse(expired)
	failed := s.awaitStatus(t, s.mustSendFile(t, "+351910000001", file), messages.Failed)
	require.Equal(t, provider.AuthExpired, *failed.ErrorCode)
	_, tries := s.net.uploadsBefore()
	require.Equal(t, 1, tries, "an expired token does not come back by itself")
	account, err := s.Accounts.Get(t.Context(), s.org, s.account.ID)
	require.NoError(t, err)
	require.NotEqual(t, s.account.Status, account.Status)
}

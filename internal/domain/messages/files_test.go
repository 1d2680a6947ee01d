package messages_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/messages"
	"github.com/parley-chat/parley/internal/platform/bucket"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/testkit/factory"
)

var picture = []byte("\x89PNG a picture")

// upload stores a file at the network, as if a person had sent it, and returns its content object.
func (s *fixture) upload(t *testing.T, data []byte, kind string) fields {
	t.Helper()
	s.Network.Number(t, s.account.BusinessAccountID, *s.account.PhoneNumberID, nil)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
		s.Network.URL+"/sim/media?phone_number_id="+*s.account.PhoneNumberID, bytes.NewReader(data))
	require.NoError(t, err)
	request.Header.Set("Content-Type", kind)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	var made struct{ ID string }
	require.NoError(t, json.NewDecoder(response.Body).Decode(&made))
	require.NotEmpty(t, made.ID)
	sum := sha256.Sum256(data)
	return fields{"id": made.ID, "mime_type": kind, "sha256": base64.StdEncoding.EncodeToString(sum[:])}
}

// download reads a file from the bucket by its public URL.
func (s *fixture) download(t *testing.T, url string) ([]byte, error) {
	t.Helper()
	key, is := strings.CutPrefix(url, factory.MediaURL+"/m/")
	require.True(t, is, url)
	file, err := s.Files.Get(t.Context(), key)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	data, err := io.ReadAll(file)
	require.NoError(t, err)
	return data, nil
}

// awaitFile waits until the file of a message has a state.
func (s *fixture) awaitFile(t *testing.T, id, state string) messages.Message {
	t.Helper()
	s.await(t, "the file of "+id+" should be "+state, func() bool { return *s.byID(t, id).MediaState == state })
	return s.byID(t, id)
}

// awaitTries waits until so many downloads of a file have failed.
func (s *fixture) awaitTries(t *testing.T, tries int) {
	t.Helper()
	s.await(t, "failed tries", func() bool {
		return s.count(t, `SELECT coalesce(max(tries), 0) FROM media_downloads WHERE org_id = @org_id`, nil) >= tries
	})
}

// failing has the downloads fail while it is true.
func (s *fixture) failing() *atomic.Bool {
	var failing atomic.Bool
	failing.Store(true)
	s.Network.Twist(func(w http.ResponseWriter, r *http.Request, network http.Handler) {
		if failing.Load() {
			http.Error(w, "down", http.StatusBadGateway)
			return
		}
		network.ServeHTTP(w, r)
	})
	return &failing
}

func mediaURL(t *testing.T, body fields) any {
	t.Helper()
	known := body["svc"].(fields)
	if known["media_url"] == nil {
		require.Nil(t, known["media_status"])
		return nil
	}
	require.Equal(t, "ready", known["media_status"])
	return known["media_url"]
}

func TestFiles_Picture_StoredBeforeItsEvent(t *testing.T) {
	t.Parallel()
	s := newIdleFixture(t) // nothing fetches the file yet
	content := s.upload(t, picture, "image/png")
	content["caption"] = "Look"
	s.receive(t, s.said("wamid.1", "image", content))
	require.Zero(t, s.countEvents(t, "message.received"), "the event waits")
	s.Work(t)
	m := s.awaitFile(t, "wamid.1", "ready")
	require.EqualValues(t, len(picture), *m.MediaSize)
	require.Equal(t, "image/png", *m.MediaType)
	body := s.bodyOf(t, "message.received")
	require.Equal(t, "Look", messageIn(t, body)["image"].(fields)["caption"])
	stored, err := s.download(t, mediaURL(t, body).(string))
	require.NoError(t, err)
	require.Equal(t, picture, stored)
	require.Equal(t, mediaURL(t, body), *s.Messages.FileURL(m))
	require.Zero(t, s.count(t, `SELECT count(*) FROM media_downloads WHERE org_id = @org_id`, nil))
	s.receive(t, s.said("wamid.1", "image", content))
	require.Equal(t, 1, s.countEvents(t, "message.received"))
	require.Equal(t, 1, s.thread(t, m).UnreadCount)
}

func TestFiles_FailThreeTimes_EventWithoutFileThenStored(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	content := s.upload(t, picture, "image/png")
	failing := s.failing()
	s.receive(t, s.said("wamid.1", "image", content))
	for tries := 1; tries <= 3; tries++ {
		require.Zero(t, s.countEvents(t, "message.received"), "after %d tries", tries-1)
		s.awaitTries(t, tries)
		s.Clock.Move(10 * time.Second)
	}
	require.Equal(t, 1, s.countEvents(t, "message.received"))
	require.Nil(t, mediaURL(t, s.bodyOf(t, "message.received")))
	require.Equal(t, "pending", *s.byID(t, "wamid.1").MediaState)
	failing.Store(false)
	s.Clock.Move(time.Minute)
	s.awaitFile(t, "wamid.1", "ready")
	require.Equal(t, 1, s.countEvents(t, "message.received"), "there is no second event")
}

func TestFiles_TooSlow_EventWithinAMinute(t *testing.T) {
	t.Parallel()
	s := newIdleFixture(t) // nothing fetches the file
	s.receive(t, s.said("wamid.1", "image", s.upload(t, picture, "image/png")))
	release := func() {
		_, err := s.Media.ReleaseLate(t.Context())
		require.NoError(t, err)
	}
	s.Clock.Move(39 * time.Second)
	release()
	require.Zero(t, s.countEvents(t, "message.received"))
	s.Clock.Move(2 * time.Second) // the next look would be after a minute
	release()
	release()
	require.Equal(t, 1, s.countEvents(t, "message.received"))
	require.Nil(t, mediaURL(t, s.bodyOf(t, "message.received")))
	s.Work(t)
	s.awaitFile(t, "wamid.1", "ready")
	require.Equal(t, 1, s.countEvents(t, "message.received"))
}

func TestFiles_CannotBeFetched_FailedWithEvent(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		content fields
		more    fields
		code    string
	}{
		"without an id":           {content: fields{"mime_type": "image/png"}},
		"refused by the provider": {content: fields{"id": "999999", "mime_type": "image/png"}, more: errorsOf(131052), code: "media_download_failed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFixture(t)
			s.receive(t, s.said("wamid.1", "image", test.content, test.more))
			m := s.awaitFile(t, "wamid.1", "failed")
			require.Nil(t, mediaURL(t, s.bodyOf(t, "message.received")))
			require.Nil(t, s.Messages.FileURL(m))
			if test.code != "" {
				require.EqualValues(t, test.code, *m.ErrorCode)
			}
			require.Equal(t, messages.Delivered, m.Status)
		})
	}
}

func TestFiles_UnknownToTheProvider_TriedAgain(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.receive(t, s.said("wamid.1", "image", fields{"id": "999999", "mime_type": "image/png"}))
	s.awaitTries(t, 1)
	require.Equal(t, "pending", *s.byID(t, "wamid.1").MediaState, "a permission that was taken away may come back")
}

func TestFiles_WrongChecksum_TriedAgain(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	content := s.upload(t, picture, "image/png")
	content["sha256"] = base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{1}, 32))
	s.receive(t, s.said("wamid.1", "image", content))
	s.awaitTries(t, 1)
	require.Equal(t, "pending", *s.byID(t, "wamid.1").MediaState)
}

func TestFiles_Echo_AnnouncedWithItsFile(t *testing.T) {
	t.Parallel()
	s := newIdleFixture(t) // nothing fetches the file yet
	s.receive(t, s.echo("wamid.1", "image", s.upload(t, picture, "image/png")))
	require.Zero(t, s.countEvents(t, "message.sent"), "the event waits")
	s.Work(t)
	s.awaitFile(t, "wamid.1", "ready")
	sent := s.bodyOf(t, "message.sent")["data"].(fields)["message"].(fields)
	stored, err := s.download(t, sent["media_url"].(string))
	require.NoError(t, err)
	require.Equal(t, picture, stored)
	require.Equal(t, sent["media_url"], sent["image"].(fields)["link"])
}

// deleted waits until a file is not in the bucket any more.
func (s *fixture) awaitDeleted(t *testing.T, url string) {
	t.Helper()
	s.await(t, "the file should be deleted", func() bool {
		_, err := s.Media.DeleteDue(t.Context())
		require.NoError(t, err)
		_, err = s.download(t, url)
		return err != nil
	})
	_, err := s.download(t, url)
	require.ErrorIs(t, err, bucket.ErrNotFound)
}

func TestFiles_ContactErased_FileDeletedAndNoEvent(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.receive(t, s.said("wamid.1", "image", s.upload(t, picture, "image/png")))
	stored := *s.Messages.FileURL(s.awaitFile(t, "wamid.1", "ready"))
	failing := s.failing()
	s.receive(t, s.said("wamid.2", "image", s.upload(t, picture, "image/png")))
	s.awaitTries(t, 1)
	waiting := factory.MediaURL + "/m/" + *s.byID(t, "wamid.2").MediaKey
	_, err := s.Contacts.Delete(t.Context(), s.org, s.account, s.byID(t, "wamid.2").ContactID)
	require.NoError(t, err)
	s.awaitDeleted(t, stored)
	failing.Store(false)
	s.Clock.Move(10 * time.Second)
	s.await(t, "the download should end", func() bool {
		return s.count(t, `SELECT count(*) FROM media_downloads WHERE org_id = @org_id`, nil) == 0
	})
	s.awaitDeleted(t, waiting)
	require.Zero(t, s.countEvents(t, "message.received"), "that of the first went with the contact, the second has none")
	s.Clock.Move(20 * time.Minute)
	s.await(t, "deletions should end", func() bool {
		_, err := s.Media.DeleteDue(t.Context())
		require.NoError(t, err)
		return s.count(t, `SELECT count(*) FROM media_deletions WHERE org_id = @org_id`, nil) == 0
	})
}

func TestFiles_NumberPurged_FilesDeleted(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.receive(t, s.said("wamid.1", "image", s.upload(t, picture, "image/png")))
	stored := *s.Messages.FileURL(s.awaitFile(t, "wamid.1", "ready"))
	s.failing()
	s.receive(t, s.said("wamid.2", "image", s.upload(t, picture, "image/png")))
	_, err := s.Accounts.Disconnect(t.Context(), s.org, audit.Operator(), *s.account.PhoneNumberID, nil)
	require.NoError(t, err)
	s.awaitDeleted(t, stored)
	s.await(t, "the purge", func() bool {
		return s.count(t, `SELECT count(*) FROM media_downloads WHERE org_id = @org_id`, nil) == 0
	})
	events := s.count(t, `SELECT count(*) FROM events WHERE org_id = @org_id AND type = 'message.received'`, nil)
	require.LessOrEqual(t, events, 1, "the second has none; a later step of the purge deletes the first")
}

// The event of a file that is stored after its contact was merged names the surviving contact.
func TestFiles_ContactMerged_EventNamesTheSurvivor(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	failing := s.failing()
	s.receive(t, s.said("wamid.1", "image", s.upload(t, picture, "image/png")))
	s.awaitTries(t, 1)
	s.receive(t, s.said("wamid.2", "text", fields{"body": "Hello"}, fields{"from": nil, "from_user_id": "PT.one"}))
	s.Clock.Move(time.Second)
	s.receive(t, s.said("wamid.3", "text", fields{"body": "Me again"}, fields{"from_user_id": "PT.one"}))
	survivor := s.contact(t)
	failing.Store(false)
	s.Clock.Move(10 * time.Second)
	s.awaitFile(t, "wamid.1", "ready")
	s.await(t, "the event", func() bool { return s.countEvents(t, "message.received") == 3 })
	named, err := postgres.Many[string](t.Context(), s.DB.Of(s.org), `
SELECT convert_from(body, 'UTF8')::json #>> '{svc,contact_id}' FROM events WHERE org_id = @org_id AND key = 'wamid.1'`, nil)
	require.NoError(t, err)
	require.Equal(t, []string{survivor.ID.String()}, named)
}

package postgres_test

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/url"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/testkit/pgtest"
	"github.com/parley-chat/parley/internal/testkit/proc"
)

// pooler listens in front of a database and starts each session as a pooler does. It returns the URL of the database
// through it.
func pooler(t *testing.T, databaseURL string, begin func(client, server net.Conn) error) string {
	t.Helper()
	address, err := url.Parse(databaseURL)
	require.NoError(t, err)
	target := address.Host
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = client.Close() }()
				server, err := net.Dial("tcp", target)
				if err != nil || begin(client, server) != nil {
					return
				}
				defer func() { _ = server.Close() }()
				go func() { _, _ = io.Copy(server, client) }()
				_, _ = io.Copy(client, server)
			}()
		}
	}()
	address.Host = listener.Addr().String()
	return address.String()
}

// session gives the client an id of its own, and drops the settings that it asks for.
func session(drop ...string) func(client, server net.Conn) error {
	return func(client, server net.Conn) error {
		first, err := pgproto3.NewBackend(client, client).ReceiveStartupMessage()
		if err != nil {
			return err
		}
		startup, ok := first.(*pgproto3.StartupMessage)
		if !ok {
			return errors.New("a cancel request")
		}
		for _, name := range drop {
			delete(startup.Parameters, name)
		}
		message, err := startup.Encode(nil)
		if err != nil {
			return err
		}
		if _, err = server.Write(message); err != nil {
			return err
		}
		for kind := byte(0); kind != 'Z'; {
			header := make([]byte, 5)
			if _, err := io.ReadFull(server, header); err != nil {
				return err
			}
			kind = header[0]
			body := make([]byte, binary.BigEndian.Uint32(header[1:])-4)
			if _, err := io.ReadFull(server, body); err != nil {
				return err
			}
			if kind == 'K' { // the id and the key of the session
				binary.BigEndian.PutUint32(body, binary.BigEndian.Uint32(body)+1)
			}
			if _, err := client.Write(slices.Concat(header, body)); err != nil {
				return err
			}
		}
		return nil
	}
}

func TestPooler_BetweenUsAndTheServer_IsFound(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.URL(t)
	for through, want := range map[string]postgres.Pooler{
		databaseURL:                                     {},
		pooler(t, databaseURL, session()):               {Between: true},
		pooler(t, databaseURL, session("lock_timeout")): {Between: true, Drops: true},
	} {
		db, err := postgres.Open(t.Context(), postgres.Config{URL: through, Name: "test", MaxConns: 1, AcquireWait: proc.Patience})
		require.NoError(t, err)
		t.Cleanup(db.Close)
		found, err := db.Pooler(t.Context())
		require.NoError(t, err)
		require.Equal(t, want, found)
	}
}

// PgBouncer refuses settings that it is not told to ignore.
func TestPooler_RefusesOurSettings_IsTold(t *testing.T) {
	t.Parallel()
	refusing := pooler(t, pgtest.URL(t), func(client, _ net.Conn) error {
		if _, err := pgproto3.NewBackend(client, client).ReceiveStartupMessage(); err != nil {
			return err
		}
		refusal, err := (&pgproto3.ErrorResponse{Severity: "FATAL", Code: "08P01", Message: "unsupported startup parameter: jit"}).Encode(nil)
		if err == nil {
			_, err = client.Write(refusal)
		}
		return errors.Join(err, io.EOF)
	})
	db, err := postgres.Open(t.Context(), postgres.Config{URL: refusing, Name: "test", MaxConns: 1, AcquireWait: proc.Patience})
	require.NoError(t, err)
	t.Cleanup(db.Close)
	require.True(t, postgres.RefusedByPooler(db.Ping(t.Context())))
}

package api_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/testkit/apitest"
)

// deadlines is a connection that keeps the last deadline that it was given for reading.
type deadlines struct {
	*httptest.ResponseRecorder

	last time.Time
}

func (d *deadlines) SetReadDeadline(at time.Time) error {
	d.last = at
	return nil
}

func (*deadlines) SetWriteDeadline(time.Time) error { return nil }

// TestMedia_FormRead_ConnectionHasTheTimeOfTheRequest: the server goes on reading from the connection while the file is being
// stored. A deadline of the form that passed then would cancel the request.
func TestMedia_FormRead_ConnectionHasTheTimeOfTheRequest(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	client := s.Client(t)
	body, contentType := form(t, "a.pdf", pdf)
	for name, sent := range map[string][]byte{"whole": body, "cut": body[:len(body)-50]} {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/media", bytes.NewReader(sent))
		request.Header.Set("Content-Type", contentType)
		request.Header.Set("Authorization", "Bearer "+client.Key())
		connection, began := &deadlines{ResponseRecorder: httptest.NewRecorder()}, time.Now()
		s.API.ServeHTTP(connection, request)
		require.Equal(t, map[string]int{"whole": http.StatusCreated, "cut": http.StatusBadRequest}[name], connection.Code, connection.Body)
		require.False(t, connection.last.Before(began.Add(10*time.Minute)), "%s: until %s, began %s", name, connection.last, began)
	}
}

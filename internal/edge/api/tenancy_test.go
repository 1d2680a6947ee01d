package api_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/testkit/apitest"
	"github.com/parley-chat/parley/openapi"
)

// owned makes, for each id parameter of a served path, a resource of the client's and
// returns its id. A new resource adds a line here, or the matrix fails on its routes.
func owned(t *testing.T, client *apitest.Client) map[string]string {
	t.Helper()
	return map[string]string{
		"/labels/{id}": client.World.Label(t, client.Org).ID.String(),
	}
}

// unknown has the form of an id and names nothing.
func unknown(id string) string { return id[:len(id)-10] + "0000000000" }

// bodies are valid bodies of the operations that need one.
func bodies() map[string]string {
	return map[string]string{"updateLabel": `{"color":"red"}`}
}

var requestID = regexp.MustCompile(`req_[0-9A-Z]{26}`)

// TestTenancy_ForeignAndMissingAnswerTheSame asks every served route that has an id for
// resources of other organizations, in the same cell and in another, for one that does not
// exist and for malformed ids.
func TestTenancy_ForeignAndMissingAnswerTheSame(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	client, asked := s.Client(t), 0
	for _, stranger := range []*apitest.Client{s.Client(t), s.Neighbour(t)} {
		for _, operation := range s.API.Served() {
			if strings.Contains(operation.Path, "{") {
				asked += askForOthers(t, s, client, stranger, operation)
			}
		}
	}
	t.Logf("%d requests over %d operations", asked, len(s.API.Served()))
}

func askForOthers(t *testing.T, s *apitest.Server, client, stranger *apitest.Client, operation *openapi.Operation) (asked int) {
	t.Helper()
	foreign, known := owned(t, stranger)[operation.Path]
	require.True(t, known, "%s has an id and no line in owned", operation.Path)
	path := func(id string) string { return strings.Replace(operation.Path, "{id}", id, 1) }
	before := stranger.Get(t, path(foreign)).Data(t)
	s.Clock.Move(time.Second)
	ask := func(id string) (int, string, http.Header) {
		asked++
		var body any
		if operation.Body != nil {
			body = bodies()[operation.ID]
		}
		answer := client.Do(t, operation.Method, path(id), body)
		return answer.Status, requestID.ReplaceAllString(string(answer.Body), "req"), stable(answer.Header)
	}
	status, body, header := ask(foreign)
	require.Equal(t, 404, status, "%s %s", operation.Method, operation.Path)
	for _, other := range []string{unknown(foreign), "malformed", strings.ToLower(foreign), foreign + "0", "%20"} {
		otherStatus, otherBody, otherHeader := ask(other)
		require.Equal(t, status, otherStatus, "%s for %q", operation.ID, other)
		require.Equal(t, body, otherBody, "%s for %q", operation.ID, other)
		require.Equal(t, header, otherHeader, "%s for %q", operation.ID, other)
	}
	after := stranger.Get(t, path(foreign)).Data(t)
	require.Equal(t, before, after, "%s touched a resource of another organization", operation.ID)
	return asked
}

// stable drops what differs between any two answers.
func stable(header http.Header) http.Header {
	header = header.Clone()
	for _, name := range []string{"X-Request-Id", "Date", "Ratelimit-Remaining", "Ratelimit-Reset"} {
		header.Del(name)
	}
	return header
}

func TestTenancy_ListsShowOnlyTheirOrganization(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	client, stranger, neighbour := s.Client(t), s.Client(t), s.Neighbour(t)
	mine := s.Label(t, client.Org)
	s.Label(t, stranger.Org)
	neighbour.World.Label(t, neighbour.Org)
	list := client.Get(t, "/labels").List(t)
	require.Len(t, list, 1)
	require.Equal(t, mine.ID.String(), list[0]["id"])
}

package api_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/testkit/apitest"
)

func TestLabels_CreateReadUpdateDelete(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	client := s.Client(t)

	created := client.Post(t, "/labels", `{"name":"VIP","color":"violet"}`)
	require.Equal(t, 201, created.Status)
	label := created.Data(t)
	path := "/labels/" + label["id"].(string)
	require.Equal(t, map[string]any{
		"id": label["id"], "object": "label", "name": "VIP", "color": "violet", "team_id": client.Team.String(),
		"created_at": "2026-03-14T09:26:53.589Z", "updated_at": "2026-03-14T09:26:53.589Z",
	}, label)
	require.Equal(t, label, client.Get(t, path).Data(t))

	s.Clock.Move(time.Second)
	changed := client.Do(t, "PATCH", path, `{"name":"<Gold & Silver>"}`)
	require.Equal(t, 200, changed.Status)
	label["name"], label["updated_at"] = "<Gold & Silver>", "2026-03-14T09:26:54.589Z"
	require.Equal(t, label, changed.Data(t))
	require.Contains(t, string(changed.Body), "<Gold & Silver>", "text comes back as it was sent, not escaped")
	s.Clock.Move(time.Second)
	require.Equal(t, label, client.Do(t, "PATCH", path, `{"name":"<Gold & Silver>"}`).Data(t), "again changes nothing")

	gone := client.Do(t, "DELETE", path, nil)
	require.Equal(t, 200, gone.Status)
	require.Equal(t, map[string]any{"id": label["id"], "object": "label", "deleted": true}, gone.Data(t))
	require.Equal(t, 404, client.Get(t, path).Status)
	require.Equal(t, 404, client.Do(t, "DELETE", path, nil).Status)
}

func TestLabels_NoColor_IsGray(t *testing.T) {
	t.Parallel()
	client := apitest.New(t).Client(t)
	require.Equal(t, "gray", client.Post(t, "/labels", `{"name":"VIP"}`).Data(t)["color"])
}

func TestLabels_Names_AreTrimmedAndVisible(t *testing.T) {
	t.Parallel()
	client := apitest.New(t).Client(t)
	label := client.Post(t, "/labels", `{"name":"  VIP\u00a0"}`).Data(t)
	require.Equal(t, "VIP", label["name"])
	requireRefusal(t, refusal{409, "conflict", "already_exists", "name"}, client.Post(t, "/labels", `{"name":" vip "}`))
	path := "/labels/" + label["id"].(string)
	require.Equal(t, "Gold", client.Do(t, "PATCH", path, `{"name":" Gold "}`).Data(t)["name"])
	for _, hidden := range []string{"   ", `\u200b\u200d`, `\u3164`, `\u2800`, `\ufeff\u00ad`} {
		blank := refusal{400, "invalid_request_error", "invalid_field_value", "name"}
		requireRefusal(t, blank, client.Post(t, "/labels", `{"name":"`+hidden+`"}`))
		requireRefusal(t, blank, client.Do(t, "PATCH", path, `{"name":"`+hidden+`"}`))
	}
}

func TestLabels_SeveralTeams_TeamIDRequired(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	client := s.Client(t)
	second, err := s.Orgs.CreateTeam(t.Context(), client.Org, audit.Operator(), "Second")
	require.NoError(t, err)
	refused := client.Post(t, "/labels", `{"name":"VIP"}`)
	requireRefusal(t, refusal{400, "invalid_request_error", "missing_required_field", "team_id"}, refused)
	require.Contains(t, refused.Error(t)["message"], second.ID.String()+" (Second)", "it says which teams there are")
	require.Equal(t, second.ID.String(), client.Post(t, "/labels", map[string]any{"name": "VIP", "team_id": second.ID}).Data(t)["team_id"])
	require.Equal(t, 201, client.Post(t, "/labels", map[string]any{"name": "VIP", "team_id": client.Team}).Status, "names are unique in a team")
}

func TestLabels_List_EveryPageSize(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	client := s.Client(t)
	var newestFirst []string
	for range 60 {
		newestFirst = append([]string{s.Label(t, client.Org).ID.String()}, newestFirst...)
		s.Clock.Move(time.Millisecond)
	}
	first := client.Get(t, "/labels")
	require.Len(t, first.List(t), 25, "the default page")

	for _, limit := range []int{1, 7, 59, 60, 100} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			t.Parallel()
			require.Equal(t, newestFirst, walk(t, client, fmt.Sprintf("/labels?limit=%d", limit)))
		})
	}
}

// walk follows next_cursor to the end and returns the ids in order.
func walk(t *testing.T, client *apitest.Client, path string) []string {
	t.Helper()
	seen, cursor := []string{}, ""
	for {
		answer := client.Get(t, path+cursor)
		require.Equal(t, 200, answer.Status, "%s", answer.Body)
		for _, item := range answer.List(t) {
			seen = append(seen, item["id"].(string))
		}
		body := answer.JSON(t)
		if body["has_more"] == false {
			require.Nil(t, body["next_cursor"])
			return seen
		}
		cursor = "&cursor=" + body["next_cursor"].(string)
	}
}

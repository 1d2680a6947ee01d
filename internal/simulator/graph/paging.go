package graph

import (
	"encoding/base64"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/parley-chat/parley/internal/simulator/wire"
)

// selectFields returns the requested fields of an object, or the default ones, and always the id.
func selectFields(full object, requested string, fields []string) object {
	if requested != "" {
		fields = strings.Split(requested, ",")
	}
	selected := object{"id": full["id"]}
	for _, field := range fields {
		name, _, _ := strings.Cut(strings.TrimSpace(field), "{")
		name, _, _ = strings.Cut(name, ".")
		if value, found := full[name]; found {
			selected[name] = value
		}
	}
	return selected
}

// paginate returns one page of a list with its cursors.
func (s *Server) paginate(c *call, listed []object, fields []string) (any, error) {
	query := c.R.URL.Query()
	limit := 25
	if given := query.Get("limit"); given != "" {
		parsed, err := strconv.Atoi(given)
		if err != nil || parsed < 1 {
			return nil, wire.Refusal(100, "Param limit must be a positive number.")
		}
		limit = min(parsed, 1000)
	}
	indexOf := func(cursor string) (int, error) {
		id, err := base64.RawURLEncoding.DecodeString(cursor)
		found := slices.IndexFunc(listed, func(o object) bool { return o["id"] == string(id) })
		if err != nil || found < 0 {
			return 0, wire.Refusal(100, "Invalid cursors values: the cursor is not of this list.")
		}
		return found, nil
	}
	from, to := 0, min(limit, len(listed))
	if cursor := query.Get("after"); cursor != "" {
		found, err := indexOf(cursor)
		if err != nil {
			return nil, err
		}
		from, to = found+1, min(found+1+limit, len(listed))
	} else if cursor := query.Get("before"); cursor != "" {
		found, err := indexOf(cursor)
		if err != nil {
			return nil, err
		}
		from, to = max(0, found-limit), found
	}
	data := make([]object, 0, to-from)
	for _, full := range listed[from:to] {
		data = append(data, selectFields(full, query.Get("fields"), fields))
	}
	answer := object{"data": data}
	if len(data) > 0 {
		answer["paging"] = s.paging(c.R, data, from > 0, to < len(listed))
	}
	return answer, nil
}

func (s *Server) paging(r *http.Request, data []object, earlier, later bool) object {
	cursor := func(o object) string {
		id, _ := o["id"].(string)
		return base64.RawURLEncoding.EncodeToString([]byte(id))
	}
	link := func(name, value string) string {
		query := r.URL.Query()
		for _, other := range []string{"after", "before", "access_token"} {
			query.Del(other)
		}
		query.Set(name, value)
		return s.BaseURL(r) + r.URL.Path + "?" + query.Encode()
	}
	before, after := cursor(data[0]), cursor(data[len(data)-1])
	paging := object{"cursors": object{"before": before, "after": after}}
	if later {
		paging["next"] = link("after", after)
	}
	if earlier {
		paging["previous"] = link("before", before)
	}
	return paging
}

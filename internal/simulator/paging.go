package simulator

import (
	"encoding/base64"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/parley-chat/parley/internal/simulator/wire"
)

// choose keeps the fields that were asked for, or the usual ones; the id always stays.
func choose(full object, asked string, usual []string) object {
	fields := usual
	if asked != "" {
		fields = strings.Split(asked, ",")
	}
	chosen := object{"id": full["id"]}
	for _, field := range fields {
		name, _, _ := strings.Cut(strings.TrimSpace(field), "{")
		name, _, _ = strings.Cut(name, ".")
		if value, known := full[name]; known {
			chosen[name] = value
		}
	}
	return chosen
}

// page answers a slice of a list with its cursors.
func (s *Simulator) page(c *call, listed []object, usual []string) (any, error) {
	query := c.r.URL.Query()
	limit := 25
	if given := query.Get("limit"); given != "" {
		parsed, err := strconv.Atoi(given)
		if err != nil || parsed < 1 {
			return nil, wire.Refusal(100, "Param limit must be a positive number.")
		}
		limit = min(parsed, 1000)
	}
	place := func(cursor string) (int, error) {
		id, err := base64.RawURLEncoding.DecodeString(cursor)
		found := slices.IndexFunc(listed, func(o object) bool { return o["id"] == string(id) })
		if err != nil || found < 0 {
			return 0, wire.Refusal(100, "Invalid cursors values: the cursor is not of this list.")
		}
		return found, nil
	}
	from, to := 0, min(limit, len(listed))
	if cursor := query.Get("after"); cursor != "" {
		found, err := place(cursor)
		if err != nil {
			return nil, err
		}
		from, to = found+1, min(found+1+limit, len(listed))
	} else if cursor := query.Get("before"); cursor != "" {
		found, err := place(cursor)
		if err != nil {
			return nil, err
		}
		from, to = max(0, found-limit), found
	}
	data := make([]object, 0, to-from)
	for _, full := range listed[from:to] {
		data = append(data, choose(full, query.Get("fields"), usual))
	}
	answer := object{"data": data}
	if len(data) > 0 {
		answer["paging"] = s.paging(c.r, data, from > 0, to < len(listed))
	}
	return answer, nil
}

func (s *Simulator) paging(r *http.Request, data []object, earlier, later bool) object {
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
		return s.base(r) + r.URL.Path + "?" + query.Encode()
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

// health is how well an account can send at this moment.
func health(owner *account, entity object, well bool) object {
	state := "AVAILABLE"
	switch {
	case owner.Disabled || !well:
		state = "BLOCKED"
	case len(owner.Restrictions) > 0:
		state = "LIMITED"
	}
	entity["can_send_message"] = "AVAILABLE"
	if !well {
		entity["can_send_message"] = "BLOCKED"
		entity["errors"] = []object{{
			"error_code": 141002, "error_description": "The entity is not ready to send.", "possible_solution": "Finish its registration or review.",
		}}
	}
	upper := object{fieldEntity: "WABA", "id": owner.ID, "can_send_message": "AVAILABLE"}
	if owner.Disabled {
		upper["can_send_message"] = "BLOCKED"
		upper["errors"] = []object{{
			"error_code": 141014, "error_description": "The account is banned.", "possible_solution": "Appeal against the decision.",
		}}
	}
	return object{"can_send_message": state, "entities": []object{entity, upper}}
}

package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/platform/clock"
)

func TestGist_EachKindOfEvent_InAFewWords(t *testing.T) {
	t.Parallel()
	provided := func(value string) string { return `{"entry":[{"changes":[{"value":` + value + `}]}]}` }
	for body, want := range map[string]string{
		provided(`{"messages":[{"from":"1555","type":"text","text":{"body":"Hi"}}]}`):                        `from 1555 text "Hi"`,
		provided(`{"messages":[{"from":"1555","type":"image"}]}`):                                            `from 1555 image`,
		provided(`{"statuses":[{"recipient_id":"1555","status":"read"}]}`):                                   `to 1555 read`,
		provided(`{"statuses":[{"recipient_id":"1","status":"failed","errors":[{"code":7,"title":"No"}]}]}`): `to 1 failed 7 No`,
		`{"data":{"message":{"to":"1555","type":"text","body":"` + strings.Repeat("a", 50) + `"}}}`:          `to 1555 text "` + strings.Repeat("a", 40) + `…"`,
		`{"data":{"message_id":"msg_1"}}`:                                                                    `msg_1`,
		`{"data":{"contact":{"id":"ctc_1","name":"Ada"}}}`:                                                   `ctc_1 Ada`,
		`{"data":{"conversation":{"id":"cnv_1","status":"open"}}}`:                                           `cnv_1 open`,
		`{"data":{"customer":{"id":"cus_1","name":"B"}}}`:                                                    `cus_1 B`,
		`{"data":{"customer_id":"cus_1"}}`:                                                                   `cus_1`,
		`{"data":{}}`:                                                                                        ``,
		`[]`:                                                                                                 ``,
	} {
		require.Equal(t, want, gist([]byte(body)), body)
	}
}

// A number that is typed shows the body of that event; others are answered with those that there are.
func TestPrinter_NumberTyped_BodyShown(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	p := &printer{out: &out, numbered: true}
	p.recall(strings.NewReader("1\n"))
	require.Equal(t, "No event has arrived yet.\n", out.String())
	for range maxRecalled + 1 {
		p.show(&received{At: clock.Stamp(time.Unix(0, 0)), Event: "contact.created", Status: 200, BodyBase64: []byte(`{"id":"evt_1"}`)})
	}
	out.Reset()
	p.recall(strings.NewReader("\n1001\n"))
	require.JSONEq(t, `{"id":"evt_1"}`, out.String())
	for _, typed := range []string{"1", "1002", "x", "-1"} {
		out.Reset()
		p.recall(strings.NewReader(typed + "\n"))
		require.Equal(t, "Type the number of an event from 2 to 1001.\n", out.String())
	}
}

func TestListen_WrongSettings_SayWhatToDo(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"there is no API key: set PARLEY_KEY, as `parley dev` prints it, or give --key-file PATH": {"listen"},
		`--url: "parley.example" is not a URL such as http://127.0.0.1:8080/v1`:                   {"listen", "--url", "parley.example"},
		"name one event, such as message.received; `parley trigger --list` shows all":             {"trigger"},
		"\"message.recieved\" cannot be triggered; `parley trigger --list` shows what can":        {"trigger", "message.recieved"},
	} {
		var out bytes.Buffer
		require.EqualError(t, run(t.Context(), args, nil, &out, &out), want)
	}
}

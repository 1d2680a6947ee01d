package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

func (p *program) triggerCommand() *cobra.Command {
	var api apiFlags
	var list bool
	t := &triggering{program: p, http: &http.Client{Timeout: callTimeout}}
	command := &cobra.Command{
		Use:   "trigger EVENT",
		Short: "Make the real thing happen on the simulated network, so that its event follows",
		Long: `Makes something happen: a person writes, a send fails, a customer connects its number. Parley then records and delivers
the event as it always does. --list shows what there is.

The network must be the simulator, as under ` + "`parley dev`" + `, which prints PARLEY_URL, PARLEY_KEY, PARLEY_NUMBER and PARLEY_PHONE.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 1 || list {
				return nil
			}
			return errors.New("name one event, such as message.received; `parley trigger --list` shows all")
		},
		RunE: func(command *cobra.Command, args []string) (err error) {
			if list {
				return t.list()
			}
			chosen := triggerNamed(args[0])
			if chosen == nil {
				return fmt.Errorf("%q cannot be triggered; `parley trigger --list` shows what can", args[0])
			}
			if t.api, err = api.client(p, command.InOrStdin()); err != nil {
				return err
			}
			return t.run(command.Context(), *chosen)
		},
	}
	api.add(command)
	flags := command.Flags()
	flags.BoolVar(&list, "list", false, "show what can be triggered")
	flags.StringVar(&t.simulator, "simulator", "", "the simulator (default: PARLEY_PHONE, else http://127.0.0.1:8090)")
	flags.StringVar(&t.number, "phone-number-id", "", "the business number (default: PARLEY_NUMBER, else 100000000000001)")
	flags.StringVar(&t.person, "person", "+15550100001", "the phone number of the person who writes or is written to")
	flags.StringVar(&t.text, "text", "Hello", "what is written")
	return command
}

// triggering is one run of `parley trigger`.
type triggering struct {
	*program

	api                             *apiClient
	http                            *http.Client
	simulator, number, person, text string
}

// fields is a JSON object.
type fields = map[string]any

// trigger makes something happen.
type trigger struct {
	name, says string
	// do returns what happened.
	do func(t *triggering, ctx context.Context) (happened string, err error)
}

func (t *triggering) list() error {
	for _, one := range triggers() {
		if _, err := fmt.Fprintf(t.stdout, "%-30s %s\n", one.name, one.says); err != nil {
			return err
		}
	}
	return nil
}

func triggerNamed(name string) *trigger {
	for _, one := range triggers() {
		if one.name == name {
			return &one
		}
	}
	return nil
}

func (t *triggering) run(ctx context.Context, chosen trigger) error {
	t.simulator = strings.TrimSuffix(cmp.Or(t.simulator, t.environment["PARLEY_PHONE"], "http://127.0.0.1:8090"), "/")
	t.number = cmp.Or(t.number, t.environment["PARLEY_NUMBER"], "100000000000001")
	happened, err := chosen.do(t, ctx)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(t.stdout, happened)
	return err
}

// sim calls the control API of the simulator.
func (t *triggering) sim(ctx context.Context, path string, body fields) (answer fields, err error) {
	status, _, content, err := sendJSON(ctx, t.http, http.MethodPost, t.simulator+"/sim/"+path, "", body)
	if err != nil {
		return nil, fmt.Errorf("the simulator does not answer at %s; name it with --simulator or PARLEY_PHONE: %w", t.simulator, err)
	}
	if err := json.Unmarshal(content, &answer); err != nil || status != http.StatusOK {
		return nil, fmt.Errorf("the simulator at %s answered %d: %s", t.simulator, status, content)
	}
	return answer, nil
}

// writes has the person write a message, and returns its id.
func (t *triggering) writes(ctx context.Context, kind string, content any) (id string, err error) {
	body := fields{numberField: t.number, "from": strings.TrimPrefix(t.person, "+"), "type": kind}
	if content != nil {
		body[kind] = content
	}
	answer, err := t.sim(ctx, "inbound", body)
	id, _ = answer["id"].(string)
	return id, err
}

const (
	textKind    = "text"
	numberField = "phone_number_id"
)

func (t *triggering) writesText(ctx context.Context) (id string, err error) {
	return t.writes(ctx, textKind, fields{"body": t.text})
}

// knownText has the person write a text, and waits until the API knows it: the callbacks of what follows may overtake its own.
func (t *triggering) knownText(ctx context.Context) (id string, err error) {
	if id, err = t.writesText(ctx); err != nil {
		return "", err
	}
	_, err = t.appears(ctx, "/"+t.number+"/messages?direction=inbound&limit=20", func(one fields) bool { return one["message_id"] == id })
	return id, err
}

// sends has the business send a text, and returns the message's id.
func (t *triggering) sends(ctx context.Context, to string) (id string, err error) {
	var sent struct {
		ID string `json:"id"`
	}
	err = t.api.call(ctx, http.MethodPost, "/"+t.number+"/messages", fields{
		"messaging_product": "chat", "to": to, "type": textKind, textKind: fields{"body": t.text},
	}, &sent)
	return sent.ID, err
}

// appears waits until the API knows a resource, and returns it: a callback is applied a moment after it arrived.
func (t *triggering) appears(ctx context.Context, path string, matches func(fields) bool) (fields, error) {
	for range 100 {
		var page struct {
			Data []fields `json:"data"`
		}
		if err := t.api.whole(ctx, http.MethodGet, path, nil, &page); err != nil {
			return nil, err
		}
		for _, one := range page.Data {
			if matches(one) {
				return one, nil
			}
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
	return nil, errors.New("what the simulator did has not arrived within 10 seconds; is its callback URL that of this Parley?")
}

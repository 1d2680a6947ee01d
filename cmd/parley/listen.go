package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-chat/parley/internal/domain/events"
	"github.com/parley-chat/parley/internal/platform/clock"
)

const (
	subscriptionsPath = "/webhook_subscriptions"
	// neverCalled is the URL of a subscription whose deliveries are read by the API. The name does not resolve anywhere, so
	// that nothing is called between making the subscription and pausing it either.
	neverCalled = "https://parley-listen.invalid/"
	// reachWithin is how long the first delivery, a test, may take to arrive.
	reachWithin = 15 * time.Second
)

func (p *program) listenCommand() *cobra.Command {
	var api apiFlags
	l := &listening{program: p}
	command := &cobra.Command{
		Use:   "listen",
		Short: "Receive events on this machine without a public URL: show each in a line, and forward it",
		Long: `Subscribes this machine to events until it ends, and shows each event in a line. With --forward-to it passes each one on
to your program, signed with the secret that it prints.

If Parley cannot reach this machine, it reads the deliveries by the API instead, and says so. These are passed on
once: an answer other than 2xx is shown and not tried again. The subscription of one that was killed is removed by the next.

Type the number of an event and Enter to see its body.`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			var err error
			if l.api, err = api.client(p, command.InOrStdin()); err != nil {
				return err
			}
			return l.run(command.Context(), command.InOrStdin())
		},
	}
	api.add(command)
	flags := command.Flags()
	flags.StringVar(&l.forwardTo, "forward-to", "", "pass each event on to this URL, for example http://127.0.0.1:3000/webhooks")
	flags.StringSliceVar(&l.events, "events", allEvents(), "only these types of event, separated by commas")
	flags.StringSliceVar(&l.numbers, "phone-number-id", nil, "only events of this business number; may be repeated")
	flags.BoolVar(&l.bodies, "body", false, "show the body of each event")
	flags.BoolVar(&l.asJSON, "json", false, "print one JSON object a line")
	flags.BoolVar(&l.poll, "poll", false, "read deliveries by the API, even if Parley can reach this machine")
	return command
}

func allEvents() (names []string) {
	for _, one := range events.Catalogue() {
		names = append(names, string(one))
	}
	return names
}

// listening is one run of `parley listen`.
type listening struct {
	*program

	api             *apiClient
	forwardTo       string
	events, numbers []string
	bodies, asJSON  bool
	poll            bool
}

// subscription is what the API answers of one.
type subscription struct {
	ID        string    `json:"id"`
	Secret    string    `json:"initial_secret"`
	CreatedAt time.Time `json:"created_at"`
}

func (l *listening) run(ctx context.Context, stdin io.Reader) error {
	shown := &printer{out: l.stdout, asJSON: l.asJSON, bodies: l.bodies, numbered: true}
	receiver := &localReceiver{
		printer: shown, forwardTo: l.forwardTo, status: http.StatusOK, clock: clock.NewSynced(), client: forwarder(),
	}
	if err := receiver.check(); err != nil {
		return err
	}
	if !l.asJSON {
		go shown.recall(stdin)
	}
	switch {
	case l.poll:
		return l.read(ctx, receiver, "")
	case !loopback(l.api.host):
		return l.read(ctx, receiver, l.api.host+" is another machine.")
	}
	if reached, err := l.receive(ctx, receiver); reached || err != nil {
		return err
	}
	return l.read(ctx, receiver, "Parley cannot reach this machine.")
}

// receive has deliveries posted to this machine until the context ends. It returns false if Parley cannot reach it.
func (l *listening) receive(ctx context.Context, receiver *localReceiver) (reached bool, err error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return false, err
	}
	defer func() { _ = listener.Close() }()
	made, err := l.subscribe(ctx, "http://"+listener.Addr().String())
	if refused, ok := errors.AsType[*apiError](err); ok && refused.Param == "url" {
		return false, nil // it posts to public addresses only
	}
	if err != nil {
		return false, err
	}
	defer l.unsubscribe(ctx, made)
	receiver.secrets = []string{made.Secret}
	probe := &probed{receiver: receiver, known: make(chan struct{}), arrived: make(chan struct{})}
	serving, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- receiver.serve(serving, listener, probe) }()
	defer func() {
		stop()
		err = errors.Join(err, <-ended)
	}()
	if reached, err = l.probe(ctx, made, probe); !reached || err != nil {
		return reached, err
	}
	l.announce("Parley posts events to this machine.", made)
	<-ctx.Done()
	return true, nil
}

// probe has a test event delivered, and tells whether it arrived.
func (l *listening) probe(ctx context.Context, made subscription, probe *probed) (arrived bool, err error) {
	err = l.api.call(ctx, http.MethodPost, subscriptionsPath+"/"+made.ID+"/test", map[string]string{"event_type": l.events[0]}, &probe.test)
	close(probe.known)
	if err != nil {
		return false, err
	}
	select {
	case <-probe.arrived:
		return true, nil
	case <-time.After(reachWithin):
		return false, nil
	case <-ctx.Done():
		return true, nil
	}
}

// subscribe makes the subscription.
func (l *listening) subscribe(ctx context.Context, address string) (made subscription, err error) {
	l.removeLeftovers(ctx)
	draft := map[string]any{"url": address, "events": l.events, "description": leftBy() + strconv.Itoa(os.Getpid())}
	if len(l.numbers) > 0 {
		draft["phone_number_ids"] = l.numbers
	}
	err = l.api.call(ctx, http.MethodPost, subscriptionsPath, draft, &made)
	return made, err
}

// leftBy begins the description of each subscription of this machine. Its end is the number of the process.
func leftBy() string {
	name, err := os.Hostname()
	if err != nil {
		name = "this machine"
	}
	return "parley listen on " + name + ", process "
}

// removeLeftovers removes the subscriptions of processes of this machine that were killed. It is a help only: what fails here
// fails again, and is reported, when the subscription is made.
func (l *listening) removeLeftovers(ctx context.Context) {
	var all []struct {
		ID          string `json:"id"`
		Description string `json:"description"`
	}
	if l.api.call(ctx, http.MethodGet, subscriptionsPath+"?limit=100", nil, &all) != nil {
		return
	}
	for _, one := range all {
		number, ours := strings.CutPrefix(one.Description, leftBy())
		process, err := strconv.Atoi(number)
		if ours && err == nil && !runs(process) {
			l.unsubscribe(ctx, subscription{ID: one.ID})
		}
	}
}

// runs tells whether a process of this machine runs.
func runs(id int) bool {
	process, err := os.FindProcess(id)
	return err == nil && !errors.Is(process.Signal(syscall.Signal(0)), os.ErrProcessDone)
}

// unsubscribe removes the subscription, also after the context has ended.
func (l *listening) unsubscribe(ctx context.Context, made subscription) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	if err := l.api.call(ctx, http.MethodDelete, subscriptionsPath+"/"+made.ID, nil, nil); err != nil {
		fmt.Fprintf(l.stderr, "the subscription %s could not be removed: %v\n", made.ID, err)
	}
}

func (l *listening) announce(how string, made subscription) {
	forwards := ""
	if l.forwardTo != "" {
		forwards = "\nforwarding to: " + l.forwardTo
	}
	fmt.Fprintf(l.stderr, "%s\nsubscription: %s\nsigning secret: %s%s\nEnd with Ctrl-C; that removes the subscription.\n\n",
		strings.TrimSpace(how), made.ID, made.Secret, forwards)
}

func loopback(host string) bool {
	address := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || (address != nil && address.IsLoopback())
}

// probed answers the test delivery that shows that Parley reaches this machine, and passes every other delivery on.
type probed struct {
	receiver *localReceiver
	// known is closed when test is known. Deliveries that arrive earlier wait for it.
	known chan struct{}
	test  struct {
		ID string `json:"id"`
	}

	once    sync.Once
	arrived chan struct{}
}

func (p *probed) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	select {
	case <-p.known:
	case <-r.Context().Done():
		return
	}
	if r.Header.Get("X-Svc-Delivery-Id") != p.test.ID {
		p.receiver.ServeHTTP(w, r)
		return
	}
	p.once.Do(func() { close(p.arrived) })
	w.WriteHeader(http.StatusOK)
}

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/signature"
)

const (
	maxReceivedBytes = 16 << 20
	maxRelayedBytes  = 64 << 10
	// forwardTimeout equals the timeout of the platform's own deliveries.
	forwardTimeout = 10 * time.Second
)

func (p *program) webhooksReceive() *cobra.Command {
	var address string
	var secrets secretFlags
	r := &localReceiver{printer: &printer{out: p.stdout, bodies: true}, clock: clock.NewSynced(), client: forwarder()}
	command := &cobra.Command{
		Use:   "receive",
		Short: "Receive deliveries on this machine: print, verify and forward each",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			var err error
			if r.secrets, err = secrets.read(command.InOrStdin()); err != nil {
				return err
			}
			if err := r.check(); err != nil {
				return err
			}
			return r.listen(command.Context(), address, p.stderr)
		},
	}
	flags := command.Flags()
	flags.StringVar(&address, "addr", "127.0.0.1:9000", "where to listen; port 0 takes a free one")
	secrets.add(command, "(what does not verify is then answered 401 and not forwarded)")
	flags.StringVar(&r.forwardTo, "forward-to", "", "pass each delivery on to this URL, and its answer back")
	flags.IntVar(&r.status, "status", http.StatusOK, "the answer when nothing is forwarded")
	flags.BoolVar(&r.printer.asJSON, "json", false, "print one JSON object a line")
	return command
}

// forwarder is a client that adds no header and follows no redirect.
func forwarder() *http.Client {
	client := &http.Client{Timeout: forwardTimeout}
	client.Transport = &http.Transport{DisableCompression: true}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return client
}

type localReceiver struct {
	secrets   []string
	forwardTo string
	status    int

	printer *printer
	clock   clock.Clock
	client  *http.Client
}

func (r *localReceiver) check() error {
	if r.status < 200 || r.status > 599 {
		return fmt.Errorf("--status: %d is not a status from 200 to 599", r.status)
	}
	if slices.Contains(r.secrets, "") {
		return errors.New("--secret: the secret is empty; is its variable set?")
	}
	if r.forwardTo == "" {
		return nil
	}
	target, err := url.Parse(r.forwardTo)
	if err != nil || target.Host == "" || (target.Scheme != "http" && target.Scheme != "https") {
		return fmt.Errorf("--forward-to: %q is not a URL such as http://127.0.0.1:3000/webhooks", r.forwardTo)
	}
	return nil
}

// listen serves until the context ends.
func (r *localReceiver) listen(ctx context.Context, address string, notes io.Writer) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("--addr: %w", err)
	}
	fmt.Fprintf(notes, "receiving on http://%s\n", listener.Addr())
	if len(r.secrets) == 0 {
		fmt.Fprintln(notes, "no --secret-file was given: signatures are not verified")
	}
	return r.serve(ctx, listener, r)
}

// serve answers deliveries until the context ends, then waits for those that it is answering.
func (r *localReceiver) serve(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute}
	stopped := make(chan error, 1)
	go func() {
		<-ctx.Done()
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), forwardTimeout)
		defer cancel()
		stopped <- server.Shutdown(grace)
	}()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	r.client.CloseIdleConnections()
	return <-stopped
}

func (r *localReceiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, request.Body, maxReceivedBytes))
	if err != nil {
		if _, large := errors.AsType[*http.MaxBytesError](err); large {
			http.Error(w, "the body is too large", http.StatusRequestEntityTooLarge)
		}
		return // the client closed the connection and waits for no answer
	}
	received := newReceived(request, body, r.clock.Now())
	received.Status = r.status
	if len(r.secrets) > 0 {
		received.verify(signature.Verify(request.Header.Get(signature.Header), body, r.secrets, r.clock.Now(), signature.Tolerance))
	}
	switch {
	case received.Verified != nil && !*received.Verified:
		received.Status = http.StatusUnauthorized
		http.Error(w, received.Failure.Message, received.Status)
	case r.forwardTo != "":
		received.Status, received.ForwardError = r.forward(w, request, body)
	default:
		w.WriteHeader(r.status)
	}
	r.printer.show(received)
}

// forward relays the answer of the other server, or answers 502 with the reason.
func (r *localReceiver) forward(w http.ResponseWriter, request *http.Request, body []byte) (status int, failure string) {
	onward, err := http.NewRequestWithContext(request.Context(), request.Method, r.forwardTo, bytes.NewReader(body))
	if err != nil {
		http.Error(w, "cannot forward", http.StatusBadGateway)
		return http.StatusBadGateway, err.Error()
	}
	onward.Header = request.Header.Clone()
	onward.Header.Del("Connection") // it is about the connection to us
	if onward.Header.Get("User-Agent") == "" {
		onward.Header.Set("User-Agent", "") // none, instead of Go's own
	}
	answer, err := r.client.Do(onward) //nolint:gosec // the URL is the developer's own
	if err != nil {
		http.Error(w, "cannot forward", http.StatusBadGateway)
		return http.StatusBadGateway, err.Error()
	}
	defer func() { _ = answer.Body.Close() }()
	for _, name := range []string{"Content-Type", "Retry-After", "Location"} {
		if value := answer.Header.Get(name); value != "" {
			w.Header().Set(name, value)
		}
	}
	w.WriteHeader(answer.StatusCode)
	_, _ = io.Copy(w, io.LimitReader(answer.Body, maxRelayedBytes)) // the platform reads the status only
	return answer.StatusCode, ""
}

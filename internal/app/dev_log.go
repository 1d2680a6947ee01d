package app

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"

	"github.com/parley-chat/parley/internal/platform/safehttp"
	"github.com/parley-chat/parley/internal/platform/statuswriter"
	"github.com/parley-chat/parley/internal/provider"
)

// logDeliveries logs each attempt to deliver a webhook, for a developer. Other processes keep attempts in the
// database only.
func logDeliveries(logger *slog.Logger) func(context.Context, string, http.Header, safehttp.Answer, error) {
	return func(ctx context.Context, target string, header http.Header, answer safehttp.Answer, err error) {
		target, _, _ = strings.Cut(target, "?") // what follows may be a secret
		attrs := []any{"event", header.Get("X-Svc-Event"), "to", target, "attempt", header.Get("X-Svc-Attempt"), "took", answer.Took}
		if err != nil {
			logger.WarnContext(ctx, "webhook.not_delivered", append(attrs, "error", err)...)
			return
		}
		logger.InfoContext(ctx, "webhook.delivered", append(attrs, "answer", answer.Status)...)
	}
}

// logCallbacks logs what each callback of the provider says, for a developer.
func logCallbacks(ingress http.Handler, parser provider.Callbacks, logger *slog.Logger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			ingress.ServeHTTP(w, r)
			return
		}
		// The ingress reads the body, under its limits; the log sees a copy of what it read.
		var body bytes.Buffer
		r.Body = struct {
			io.Reader
			io.Closer
		}{io.TeeReader(r.Body, &body), r.Body}
		answered := statuswriter.New(w)
		ingress.ServeHTTP(answered, r)
		items, _ := parser.Parse(body.Bytes()) // nil for a body that the ingress refused
		told := make([]string, len(items))
		for i, item := range items {
			told[i] = tell(item)
		}
		logger.InfoContext(r.Context(), "callback.received", "says", strings.Join(told, "; "), "answer", answered.Status)
	})
}

// tell says in a few words what a notification is about.
func tell(n provider.Notification) string {
	switch item := n.Item.(type) {
	case provider.Inbound:
		return fmt.Sprintf("%s message from %s to %s", item.Type, who(item.From), cmp.Or(n.DisplayNumber, n.NumberID))
	case provider.Status:
		return fmt.Sprintf("the message to %s is %s", who(item.Recipient), item.Status)
	case provider.Echo:
		return fmt.Sprintf("%s message to %s from the phone app", item.Type, who(item.To))
	case provider.Edit:
		return who(item.User) + " edited a message"
	case provider.Revoke:
		return who(item.User) + " deleted a message"
	default:
		return "a change of " + n.Field
	}
}

// who returns the name by which a person knows the user: number, username or id.
func who(user provider.User) string { return cmp.Or(user.Phone, user.Username, user.ID) }

package timeline

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/parley-chat/parley/internal/domain/apilogs"
	"github.com/parley-chat/parley/internal/domain/events"
	"github.com/parley-chat/parley/internal/domain/messages"
	"github.com/parley-chat/parley/internal/domain/webhooks"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/provider"
)

// The sentences of the timeline. Support staff read these sentences. They may not know queues or callbacks.

// moment is a time in words.
func moment(at time.Time) string { return at.UTC().Format("2006-01-02 15:04:05 UTC") }

// lasting is a duration in words.
func lasting(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return strconv.FormatFloat(d.Round(100*time.Millisecond).Seconds(), 'f', -1, 64) + " s"
}

func requestSummary(r apilogs.Entry) string {
	return fmt.Sprintf("The API answered %d after %s.", r.Status, lasting(r.Duration))
}

func (g *gathered) acceptedSummary() string {
	summary := "Parley accepted the message and queued it for sending."
	switch {
	case g.Direction == messages.Inbound:
		summary = "The person's message arrived, and Parley stored it."
	case g.Source == messages.FromApp:
		summary = "The business sent the message in the phone app, and Parley stored a copy."
	}
	if g.Uploads != nil {
		return g.uploadSummary(summary)
	}
	if g.MediaState == nil || g.Direction == messages.Outbound && g.Source != messages.FromApp {
		return summary
	}
	switch *g.MediaState {
	case "pending":
		return summary + " Its file is being downloaded."
	case "ready":
		return summary + " Its file was downloaded."
	}
	if g.ErrorMessage == nil {
		return summary + " Its file could not be downloaded."
	}
	return summary + " Its file could not be downloaded" + numbered(g.ProviderCode) + ": " + sentence(*g.ErrorMessage)
}

// uploadSummary says how far the upload of the message's library files is. An upload that began after the first attempt is
// that of a later message.
func (g *gathered) uploadSummary(accepted string) string {
	uploaded := g.Uploads.UploadedAt
	switch tries := g.Uploads.Tries; {
	case tries != nil && *tries > 0:
		return fmt.Sprintf("Parley accepted the message. It waits until its library files are uploaded to the provider, which failed %s so far.",
			times(*tries))
	case tries != nil:
		return "Parley accepted the message. It waits until its library files are uploaded to the provider."
	case uploaded == nil || len(g.Attempts) > 0 && uploaded.After(g.Attempts[0].BegunAt):
		return accepted
	case uploaded.Before(g.ID.CreatedAt()):
		return accepted + " Its library files had been uploaded to the provider before, the last at " + moment(*uploaded) + "."
	default:
		return accepted + " Its library files were uploaded to the provider first, the last at " + moment(*uploaded) + "."
	}
}

// times is a count in words.
func times(count int) string {
	if count == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", count)
}

func (g *gathered) attemptSummary(i int) string {
	a := g.Attempts[i]
	switch a.Outcome {
	case messages.AttemptSent:
		return "The provider took the message."
	case messages.AttemptUnderWay:
		return "Parley is calling the provider. If no answer comes, it waits until " + moment(*a.WaitedUntil) +
			" for a callback before it sends the message again."
	case messages.AttemptNotCalled:
		return "Parley did not call the provider, because the message may not be sent any more."
	case messages.AttemptRefused:
		return "The provider refused the message" + numbered(a.ProviderCode) + ". It is not sent again."
	case messages.AttemptFailed:
		return "The provider could not take the message" + numbered(a.ProviderCode) + ". " + g.retried(i)
	case messages.AttemptUnknown:
		return g.unknownSummary(i)
	default:
		return ""
	}
}

// numbered is the provider's number of an error.
func numbered(code *int) string {
	if code == nil {
		return ""
	}
	return fmt.Sprintf(" (its error %d)", *code)
}

// retried says what followed an attempt that failed.
func (g *gathered) retried(i int) string {
	switch {
	case i+1 < len(g.Attempts):
		return "Parley tried again at " + moment(g.Attempts[i+1].BegunAt) + "."
	case g.FailedAt != nil:
		return "It was the last attempt."
	default:
		return "Parley tries again within minutes."
	}
}

// unknownSummary is about an attempt that may have been executed. The provider cannot be asked: only a callback tells.
func (g *gathered) unknownSummary(i int) string {
	a := g.Attempts[i]
	summary := "The provider did not say whether it took the message."
	if a.EndedAt != nil {
		summary = "The provider did not say within " + lasting(a.EndedAt.Sub(a.BegunAt)) + " whether it took the message."
	}
	switch {
	case i+1 < len(g.Attempts) && g.SecondProviderID != nil:
		return summary + " Parley waited until " + moment(*a.WaitedUntil) +
			" for a callback, then sent the message again. Later callbacks show that the provider took both: the person may have got it twice."
	case i+1 < len(g.Attempts):
		return summary + " Parley waited until " + moment(*a.WaitedUntil) + " for a callback, then sent the message again."
	case a.WaitedUntil != nil && g.Resent:
		return summary + " Parley waits until " + moment(*a.WaitedUntil) + " for a callback before it gives the message up."
	case a.WaitedUntil != nil:
		return summary + " Parley waits until " + moment(*a.WaitedUntil) + " for a callback before it sends the message again."
	case g.ProviderID != nil:
		return summary + " A callback proved later that it did."
	default:
		return summary + " No callback came, so that Parley gave the message up. It may have been delivered."
	}
}

func (g *gathered) statusSummary(status string) string {
	switch {
	case status == string(messages.Sent) && g.Source == messages.FromApp:
		return "The message was sent in the phone app."
	case status == string(messages.Sent) && g.sentBy() == ByCallback:
		return "A callback of the provider proved that it took the message."
	case status == string(messages.Sent):
		return "The provider has the message and sends it to the person."
	case status == string(messages.Delivered):
		return "Delivered to the person's phone."
	case status == string(messages.Read) && g.Direction == messages.Inbound:
		return "The business marked the message as read."
	case status == string(messages.Read):
		return "The person read the message."
	case status == statusPlayed:
		return "The person played the recording."
	default:
		return g.failedSummary()
	}
}

func (g *gathered) failedSummary() string {
	summary := g.failed(g.Synthesized)
	if g.ErrorMessage != nil {
		summary += sentence(*g.ErrorMessage)
	}
	if g.ErrorCode != nil {
		summary += meanings()[*g.ErrorCode]
	}
	return summary
}

// failed says how the message failed; ours is a failure that Parley synthesized.
func (g *gathered) failed(ours bool) string {
	switch last := g.lastOutcome(); {
	case !ours:
		return "The provider reported that the message was not delivered: "
	case last == messages.AttemptRefused:
		return "The provider refused the message: "
	case last == messages.AttemptFailed:
		return "The provider did not take the message in " + counted(len(g.Attempts)) + ": "
	case last == messages.AttemptUnknown:
		return "Parley gave the message up: "
	default:
		return "Parley did not send the message: "
	}
}

func (g *gathered) supersededSummary(problem string) string {
	return g.failed(true) + sentence(problem) + " A callback of the provider came later, and counts instead."
}

// sentence ends a text with a full stop.
func sentence(text string) string {
	if strings.HasSuffix(text, ".") {
		return text
	}
	return text + "."
}

// meanings explain the codes whose message is written by the provider.
func meanings() map[fault.Code]string {
	return map[fault.Code]string{
		provider.OutsideWindow:           " The person has not written within 24 hours, so that only a template can be sent.",
		provider.MarketingBlockedByUser:  " The person does not want marketing messages from this business.",
		provider.RecipientUnavailable:    " The person has no account on the network, uses too old a version, or cannot get messages now.",
		provider.UnsupportedMessageType:  " The network does not take this type of message.",
		provider.AccountLocked:           " The network has locked the business account.",
		provider.PermissionRevoked:       " Parley may not send for this number any more: connect it again.",
		provider.AuthExpired:             " Parley's access to this number has ended: connect it again.",
		provider.AppRateLimited:          " Too many messages were sent at once. Send it again later.",
		provider.AccountRateLimited:      " This number has sent too much for now. Send it again later.",
		provider.TemplateNotFound:        " The template does not exist for this number in this language.",
		provider.TemplatePaused:          " The network has paused the template because of its quality.",
		provider.TemplatePolicyViolation: " The template's text breaks a rule of the network.",
		provider.FlowBlocked:             " The form of the message is blocked by the network.",
		provider.MediaUploadFailed:       " The network could not take the file: check that it can be fetched, and its type.",
		provider.MediaDownloadFailed:     " The file could not be downloaded from the network.",
		provider.Undeliverable:           " The network gives no closer reason; sending it again may work.",
		provider.PolicyViolation:         " The message breaks a rule of the network.",
	}
}

func (g *gathered) eventSummary(one events.Recorded, deliveries int) string {
	summary := fmt.Sprintf("Parley recorded the event %s", one.Type)
	if status := one.Status(); status != "" {
		summary += fmt.Sprintf(" (%s)", status)
	}
	switch {
	case deliveries == 1:
		return summary + ", for one webhook delivery."
	case deliveries > 1:
		return fmt.Sprintf("%s, for %d webhook deliveries.", summary, deliveries)
	case g.trail.Cut:
		return summary + "."
	default:
		return summary + ". It has no webhook delivery: no subscription of then asked for it, or the subscription was deleted."
	}
}

func (g *gathered) deliverySummary(d webhooks.Delivery) string {
	summary := ""
	if d.ReplayedFrom != nil {
		summary = "This is a replay. "
	}
	to := g.receiver(d)
	switch {
	case d.Status == webhooks.Succeeded && d.AttemptCount == 1:
		return summary + fmt.Sprintf("The receiver%s took the event%s.", to, answer(d.ResponseStatus, d.DurationMs))
	case d.Status == webhooks.Succeeded:
		return summary + fmt.Sprintf("The receiver%s took the event at attempt %d.", to, d.AttemptCount)
	case d.Status == webhooks.Dead && d.AttemptCount == 0:
		return summary + fmt.Sprintf("The event was not sent to the receiver%s. %s", to, d.Problem())
	case d.Status == webhooks.Dead:
		return summary + fmt.Sprintf("The receiver%s did not take the event in %s, and Parley gave up. It can be replayed. %s",
			to, counted(d.AttemptCount), d.Problem())
	case d.AttemptCount == 0:
		return summary + fmt.Sprintf("The event waits to be sent to the receiver%s. %s", to, g.waiting(d))
	default:
		return summary + fmt.Sprintf("The receiver%s did not take the event in %s. %s", to, counted(d.AttemptCount), g.waiting(d))
	}
}

// counted is a number of attempts in words.
func counted(attempts int) string {
	if attempts == 1 {
		return "one attempt"
	}
	return fmt.Sprintf("%d attempts", attempts)
}

// answer is how the receiver answered.
func answer(status, duration *int) string {
	if status == nil || duration == nil {
		return ""
	}
	return fmt.Sprintf(": it answered %d after %s", *status, lasting(time.Duration(*duration)*time.Millisecond))
}

// waiting says what a delivery waits for.
func (g *gathered) waiting(d webhooks.Delivery) string {
	endpoint, there := g.trail.Endpoints[d.SubscriptionID]
	switch {
	case !there:
		return "Its subscription was deleted."
	case endpoint.Status == webhooks.Paused:
		return "Its subscription is paused: it is sent when that is resumed."
	case endpoint.Status == webhooks.Disabled:
		return "Its subscription is disabled, because the receiver failed for long: it is sent when that is activated again."
	case d.NextAttemptAt == nil:
		return ""
	case endpoint.BreakerUntil != nil && endpoint.BreakerUntil.After(latest(g.now, *d.NextAttemptAt)):
		return "The receiver fails, so that Parley sends it nothing before " + moment(*endpoint.BreakerUntil) + "."
	default:
		return "The next attempt is at " + moment(*g.due(d)) + "."
	}
}

// receiver is the host of the receiver in brackets; empty when its subscription was deleted.
func (g *gathered) receiver(d webhooks.Delivery) string {
	if endpoint, there := g.trail.Endpoints[d.SubscriptionID]; there {
		return " (" + endpoint.Host + ")"
	}
	return ""
}

func attemptTook(a webhooks.DeliveryAttempt) string {
	return fmt.Sprintf("Attempt %d: the receiver took the event%s.", a.Attempt.Attempt, answer(a.ResponseStatus, a.DurationMs))
}

func attemptFailed(a webhooks.DeliveryAttempt) string {
	return fmt.Sprintf("Attempt %d failed. %s", a.Attempt.Attempt, a.Problem())
}

// afterLast says what follows the last attempt of a delivery, which failed.
func (g *gathered) afterLast(d webhooks.Delivery) string {
	if d.Status == webhooks.Dead {
		return "Parley gave up."
	}
	return g.waiting(d)
}

package timeline

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/media"
	"github.com/parley-chat/parley/internal/domain/messages"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/ids"
)

func at(text string) *time.Time {
	parsed, err := time.Parse("15:04:05.000", text)
	if err != nil {
		panic(err)
	}
	return new(time.Date(2026, 3, 14, parsed.Hour(), parsed.Minute(), parsed.Second(), parsed.Nanosecond(), time.UTC))
}

func attempted(outcome messages.AttemptOutcome, begun string) messages.Attempt {
	return messages.Attempt{Attempt: 1, BegunAt: *at(begun), Outcome: outcome}
}

// TestStatuses_ProviderTimes_NeverBeforeTheirCause: the provider's times have whole seconds, and its clock may be behind ours.
func TestStatuses_ProviderTimes_NeverBeforeTheirCause(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		state    messages.State
		attempts []messages.Attempt
		want     []string
	}{
		"all within one second": {
			state:    messages.State{SentAt: at("10:00:00.700"), DeliveredAt: at("10:00:00.000"), ReadAt: at("10:00:00.000"), PlayedAt: at("10:00:00.000")},
			attempts: []messages.Attempt{attempted(messages.AttemptSent, "10:00:00.500")},
			want:     []string{"sent 10:00:00.700", "delivered 10:00:00.700", "read 10:00:00.700", "played 10:00:00.700"},
		},
		"a clock that is behind": {
			state:    messages.State{SentAt: at("09:59:58.000"), ReadAt: at("09:59:59.000")},
			attempts: []messages.Attempt{attempted(messages.AttemptSent, "10:00:00.500")},
			want:     []string{"sent 10:00:00.500", "read 10:00:00.500"},
		},
		"the first attempt that may have reached the provider": {
			state: messages.State{SentAt: at("10:01:01.000"), FailedAt: at("10:01:02.000")},
			attempts: []messages.Attempt{
				attempted(messages.AttemptFailed, "10:00:00.500"), attempted(messages.AttemptUnknown, "10:01:01.400"),
				attempted(messages.AttemptSent, "10:03:01.400"),
			},
			want: []string{"sent 10:01:01.400", "failed 10:01:02.000"},
		},
		"sent in the phone app, before it was stored": {
			state: messages.State{SentAt: at("10:00:01.000"), DeliveredAt: at("10:00:02.000")}, want: []string{"sent 10:00:01.000", "delivered 10:00:02.000"},
		},
		"read before it was delivered": {
			state:    messages.State{SentAt: at("10:00:01.000"), DeliveredAt: at("10:00:05.000"), ReadAt: at("10:00:04.000")},
			attempts: []messages.Attempt{attempted(messages.AttemptSent, "10:00:00.500")},
			want:     []string{"sent 10:00:01.000", "delivered 10:00:05.000", "read 10:00:05.000"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := &gathered{}
			g.Direction, g.State, g.Attempts = messages.Outbound, test.state, test.attempts
			var got []string
			for _, one := range g.statusEntries() {
				got = append(got, one.Detail.Status+" "+one.At.Format("15:04:05.000"))
			}
			require.Equal(t, test.want, got)
		})
	}
}

// TestSummary_Failed_SaysWhoAndWhy: the sentence of the status `failed`, by what ended the message.
func TestSummary_Failed_SaysWhoAndWhy(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		outcomes    []messages.AttemptOutcome
		synthesized bool
		code        fault.Code
		words       string
		by          KnownBy
		want        string
	}{
		"callback": {
			[]messages.AttemptOutcome{messages.AttemptSent},
			false, "recipient_unavailable", "Message undeliverable", ByCallback,
			"The provider reported that the message was not delivered: Message undeliverable. The person has no account on the network,",
		},
		"refused": {
			[]messages.AttemptOutcome{messages.AttemptRefused},
			true, "template_paused", "Template is paused.", ByAnswer,
			"The provider refused the message: Template is paused. The network has paused the template because of its quality.",
		},
		"tried in vain": {
			[]messages.AttemptOutcome{messages.AttemptFailed, messages.AttemptFailed},
			true, "upstream_error", "Service unavailable", ByAnswer,
			"The provider did not take the message in 2 attempts: Service unavailable.",
		},
		"a check": {
			[]messages.AttemptOutcome{messages.AttemptNotCalled},
			true, "customer_suspended", "The customer is suspended.", ByParley,
			"Parley did not send the message: The customer is suspended.",
		},
		"unknown": {
			[]messages.AttemptOutcome{messages.AttemptUnknown, messages.AttemptUnknown},
			true, "upstream_error", "It may have been delivered.", ByParley,
			"Parley gave the message up: It may have been delivered.",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := &gathered{}
			g.State = messages.State{Synthesized: test.synthesized, ErrorCode: &test.code, ErrorMessage: &test.words, FailedAt: at("10:00:00.000")}
			for _, outcome := range test.outcomes {
				g.Attempts = append(g.Attempts, attempted(outcome, "09:00:00.000"))
			}
			entries := g.statusEntries()
			require.Len(t, entries, 1)
			require.Contains(t, entries[0].Detail.Summary, test.want)
			require.Equal(t, test.by, entries[0].Detail.KnownBy)
		})
	}
}

// TestSummary_Attempts_SayWhatFollows: the sentence of each outcome.
func TestSummary_Attempts_SayWhatFollows(t *testing.T) {
	t.Parallel()
	until, ended := at("10:02:00.000"), at("10:00:10.000")
	unknown := messages.Attempt{BegunAt: *at("10:00:00.000"), EndedAt: ended, Outcome: messages.AttemptUnknown}
	waiting := unknown
	waiting.WaitedUntil = until
	failed := messages.Attempt{BegunAt: *at("10:00:00.000"), Outcome: messages.AttemptFailed, ProviderCode: new(131016)}
	next := messages.Attempt{BegunAt: *until, Outcome: messages.AttemptSent}
	for name, test := range map[string]struct {
		story messages.Story
		want  string
	}{
		"unknown, waits": {
			messages.Story{Attempts: []messages.Attempt{waiting}},
			"The provider did not say within 10 s whether it took the message. Parley waits until 2026-03-14 10:02:00 UTC for a callback " +
				"before it sends the message again.",
		},
		"unknown again, waits": {
			messages.Story{Message: messages.Message{State: messages.State{Resent: true}}, Attempts: []messages.Attempt{waiting}},
			"for a callback before it gives the message up.",
		},
		"unknown, resent":  {messages.Story{Attempts: []messages.Attempt{waiting, next}}, "for a callback, then sent the message again."},
		"unknown, proved":  {proved(messages.Story{Attempts: []messages.Attempt{unknown}}), "A callback proved later that it did."},
		"unknown, no word": {messages.Story{Attempts: []messages.Attempt{unknown}}, "No callback came, so that Parley gave the message up."},
		"failed, retried": {
			messages.Story{Attempts: []messages.Attempt{failed, next}},
			"The provider could not take the message (its error 131016). Parley tried again at 2026-03-14 10:02:00 UTC.",
		},
		"failed, waits": {messages.Story{Attempts: []messages.Attempt{failed}}, "Parley tries again within minutes."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := &gathered{Story: test.story}
			require.Contains(t, g.attemptSummary(0), test.want)
		})
	}
}

// TestSummary_LibraryFiles_SayHowFarTheirUploadIs: a message with library files is sent after their upload.
func TestSummary_LibraryFiles_SayHowFarTheirUploadIs(t *testing.T) {
	t.Parallel()
	accepted := "Parley accepted the message and queued it for sending."
	attempt := []messages.Attempt{attempted(messages.AttemptSent, "10:00:30.000")}
	for name, test := range map[string]struct {
		uploads  *media.Progress
		attempts []messages.Attempt
		want     string
	}{
		"no library file": {nil, attempt, accepted},
		"waits": {
			&media.Progress{Tries: new(0)},
			nil, "Parley accepted the message. It waits until its library files are uploaded to the provider.",
		},
		"failed once": {
			&media.Progress{Tries: new(1)},
			nil, "Parley accepted the message. It waits until its library files are uploaded to the provider, which failed once so far.",
		},
		"failed twice, one of two files uploaded": {
			&media.Progress{Tries: new(2), UploadedAt: at("10:00:10.000")},
			nil, "Parley accepted the message. It waits until its library files are uploaded to the provider, which failed 2 times so far.",
		},
		"uploaded, waits for its attempt": {
			&media.Progress{UploadedAt: at("10:00:10.000")},
			nil, accepted + " Its library files were uploaded to the provider first, the last at 2026-03-14 10:00:10 UTC.",
		},
		"uploaded for it": {
			&media.Progress{UploadedAt: at("10:00:10.000")},
			attempt, accepted + " Its library files were uploaded to the provider first, the last at 2026-03-14 10:00:10 UTC.",
		},
		"uploaded before": {
			&media.Progress{UploadedAt: at("09:00:00.000")},
			attempt, accepted + " Its library files had been uploaded to the provider before, the last at 2026-03-14 09:00:00 UTC.",
		},
		"uploaded again for a later message": {&media.Progress{UploadedAt: at("10:01:00.000")}, attempt, accepted},
		"its upload is not known any more":   {&media.Progress{}, attempt, accepted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := &gathered{Story: messages.Story{Uploads: test.uploads, Attempts: test.attempts}}
			g.ID, g.Direction, g.MediaState = messages.ID(ids.Floor[anyKind](*at("10:00:00.000"))), messages.Outbound, new("ready")
			require.Equal(t, test.want, g.acceptedSummary())
		})
	}
}

func proved(story messages.Story) messages.Story {
	story.ProviderID = new("pmid.1")
	return story
}

// TestPosition_SameMillisecond_TotalOrder: entries of one millisecond keep the order of their kinds and numbers, so that pages neither
// repeat nor skip one.
func TestPosition_SameMillisecond_TotalOrder(t *testing.T) {
	t.Parallel()
	now, message := *at("10:00:00.000"), ids.New[anyKind](*at("10:00:00.000")).String()
	ordered := []Entry{
		entry(Request, now, rankRequest, "req_1", Detail{}), entry(Accepted, now, rankAccepted, message, Detail{}),
		entry(Attempt, now, rankAttempt+2, message+":2", Detail{}), entry(Attempt, now, rankAttempt+10, message+":10", Detail{}),
		entry(Status, now, rankStatus, message+":sent", Detail{}), entry(Status, now, rankStatus+1, message+":delivered", Detail{}),
		entry(Event, now, rankEvent, "evt_1", Detail{}), entry(Event, now, rankEvent, "evt_2", Detail{}),
		entry(Delivery, now, rankDelivery, "wbd_1", Detail{}), entry(Delivery, now, rankDeliveryAttempt+1, "wbd_1:1", Detail{}),
		entry(Delivery, now.Add(time.Millisecond), rankDelivery, "wbd_0", Detail{}),
	}
	for i := range ordered[1:] {
		require.Negative(t, ordered[i].compare(ordered[i+1].Position))
	}
}

type anyKind struct{}

func (anyKind) Prefix() string { return "msg_" }

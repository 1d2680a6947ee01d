package receiver_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/platform/signature"
	"github.com/parley-chat/parley/internal/testkit/leaks"
	"github.com/parley-chat/parley/internal/testkit/receiver"
)

func TestMain(m *testing.M) { os.Exit(leaks.Main(m)) }

const patience = 3 * time.Minute

// delivery returns a request like those of the product.
func delivery(t *testing.T, url string, body []byte, headers ...string) *http.Request {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader(body))
	require.NoError(t, err)
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	return request
}

type answered struct {
	status int
	header http.Header
	body   string
}

// do sends the request and reads the whole response.
func do(t *testing.T, client *http.Client, request *http.Request) (answered, error) {
	t.Helper()
	response, err := client.Do(request)
	if err != nil {
		return answered{}, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	return answered{status: response.StatusCode, header: response.Header, body: string(body)}, err
}

func TestReceiver_Request_RecordedAsItArrived(t *testing.T) {
	t.Parallel()
	r := receiver.New(t, "hooks.example.com")
	raw := []byte("{\r\n \"a\":\"\xff\x00\"}\n")
	before := time.Now()
	response, err := do(t, r.Client(t), delivery(t, r.URL+"/hook?x=1", raw,
		"X-Svc-Delivery-Id", "wbd_1", "X-Svc-Event-Uid", "evt_1", "X-Svc-Event", "contact.created", "X-Svc-Attempt", "3"))
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, response.status)

	kept := r.WaitCount(t, 1, patience)[0]
	require.Equal(t, 1, kept.Number)
	require.Equal(t, http.MethodPost, kept.Method)
	require.Equal(t, "/hook?x=1", kept.Path)
	require.Equal(t, raw, kept.Body)
	require.Equal(t, []any{"wbd_1", "evt_1", "contact.created", 3}, []any{kept.DeliveryID(), kept.EventUID(), kept.Event(), kept.Attempt()})
	require.WithinRange(t, kept.At, before, time.Now())
	require.Equal(t, []int{1, 1, 1, 0, 0}, []int{
		r.Count(), r.CountDelivery("wbd_1"), r.CountEvent("evt_1"), r.CountEvent("evt_2"), r.Broken(),
	})
	require.Equal(t, map[string]int{"wbd_1": 1}, r.Deliveries())
	require.Equal(t, map[string]int{"evt_1": 1}, r.Events())
}

func TestReceiver_Certificate_TrustedOnlyThroughItsCA(t *testing.T) {
	t.Parallel()
	r := receiver.New(t, "hooks.example.com")
	encoded, err := os.ReadFile(r.CAFile)
	require.NoError(t, err)
	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM(encoded))
	require.True(t, pool.Equal(r.CA))

	client := r.Client(t)
	client.Transport.(*http.Transport).TLSClientConfig.ServerName = "hooks.example.com"
	_, err = do(t, client, delivery(t, r.URL, nil))
	require.NoError(t, err)

	_, err = do(t, &http.Client{}, delivery(t, r.URL, nil))
	require.ErrorAs(t, err, new(x509.UnknownAuthorityError), "a client without the CA")
}

func TestAnswer_EachField_Sent(t *testing.T) {
	t.Parallel()
	r := receiver.New(t)
	client := r.Client(t)
	ask := func(answer receiver.Answer) (answered, error) {
		r.Answer(receiver.Always(answer))
		return do(t, client, delivery(t, r.URL, []byte("{}")))
	}

	response, err := ask(receiver.Answer{Status: 503, RetryAfter: "7", Header: http.Header{"X-A": {"b"}}, Body: []byte("busy")})
	require.NoError(t, err)
	require.Equal(t, []any{503, "7", "b", "busy"}, []any{response.status, response.header.Get("Retry-After"), response.header.Get("X-A"), response.body})

	response, err = ask(receiver.Answer{Body: []byte("ab"), Zeroes: 5_000_001})
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, response.status)
	require.Len(t, response.body, 5_000_003)

	began := time.Now()
	_, err = ask(receiver.Answer{Delay: 20 * time.Millisecond})
	require.NoError(t, err)
	require.GreaterOrEqual(t, time.Since(began), 20*time.Millisecond)

	_, err = ask(receiver.Answer{Close: true})
	require.ErrorIs(t, err, io.EOF)

	response, err = ask(receiver.Answer{Close: true, Body: []byte("half"), Header: http.Header{"Content-Length": {"8"}}})
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.Equal(t, "half", response.body)
	require.Equal(t, http.StatusOK, response.status)
	require.GreaterOrEqual(t, r.Count(), 5, "requests without a response are recorded too")
}

func TestAnswer_Hold_WaitsUntilClosed(t *testing.T) {
	t.Parallel()
	r := receiver.New(t)
	hold := make(chan struct{})
	r.Answer(receiver.Always(receiver.Answer{Hold: hold, Status: http.StatusAccepted}))
	answered := make(chan int)
	client, request := r.Client(t), delivery(t, r.URL, nil)
	go func() {
		response, err := do(t, client, request)
		if err != nil {
			close(answered)
			return
		}
		answered <- response.status
	}()
	r.WaitCount(t, 1, patience)
	select {
	case <-answered:
		t.Fatal("answered while held")
	default:
	}
	close(hold)
	require.Equal(t, http.StatusAccepted, <-answered)
}

// A test may end while requests hang. Goleak checks that no goroutine is left.
func TestReceiver_TestEnds_HangingRequestsEnd(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 1)
	t.Run("hanging", func(t *testing.T) {
		r := receiver.New(t)
		r.Answer(receiver.Always(receiver.Answer{Hold: make(chan struct{})}))
		client := &http.Client{}
		client.Transport = &http.Transport{TLSClientConfig: r.Client(t).Transport.(*http.Transport).TLSClientConfig}
		request := delivery(t, r.URL, nil).WithContext(context.WithoutCancel(t.Context()))
		go func() {
			_, err := client.Do(request) //nolint:bodyclose // there is no answer
			ended <- err
		}()
		r.WaitCount(t, 1, patience)
	})
	require.Error(t, <-ended)
}

func TestReceiver_TruncatedRequest_CountedAsBroken(t *testing.T) {
	t.Parallel()
	r := receiver.New(t)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.URL, io.MultiReader(strings.NewReader("half"), failing{}))
	require.NoError(t, err)
	_, err = do(t, r.Client(t), request)
	require.Error(t, err)
	r.Wait(t, patience, "a broken request", func() bool { return r.Broken() == 1 })
	require.Zero(t, r.Count())
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("broken") }

func TestSequence_Answers_InOrder(t *testing.T) {
	t.Parallel()
	of := func(id string) receiver.Request {
		return receiver.Request{Header: http.Header{"X-Svc-Delivery-Id": {id}}}
	}
	statuses := func(answer func(receiver.Request) receiver.Answer, ids ...string) (got []int) {
		for _, id := range ids {
			got = append(got, answer(of(id)).Status)
		}
		return got
	}
	a, b := receiver.Answer{Status: 500}, receiver.Answer{Status: 200}
	require.Equal(t, []int{500, 200, 200}, statuses(receiver.Sequence(a, b), "x", "y", "z"))
	require.Equal(t, []int{500, 500, 200, 200, 200}, statuses(receiver.PerDelivery(a, b), "x", "y", "x", "y", "x"))
	require.Equal(t, []int{0}, statuses(receiver.Sequence(), "x"))
}

func TestReceiver_ConcurrentRequests_AllRecorded(t *testing.T) {
	t.Parallel()
	const overTheWire, direct, senders = 2_000, 50_000, 16
	r := receiver.New(t)
	client := r.Client(t)
	var senderGroup sync.WaitGroup
	for sender := range senders {
		senderGroup.Go(func() {
			for i := sender; i < overTheWire+direct; i += senders {
				id := fmt.Sprintf("%d", i%1000)
				request := delivery(t, r.URL, []byte(id), "X-Svc-Delivery-Id", "wbd_"+id, "X-Svc-Event-Uid", "evt_"+id)
				if i >= overTheWire {
					r.ServeHTTP(httptest.NewRecorder(), request)
				} else if _, err := do(t, client, request); err != nil {
					t.Error(err)
				}
			}
		})
	}
	r.WaitEvents(t, 1000, patience)
	r.WaitDelivery(t, "wbd_7", 52, patience)
	r.WaitEvent(t, "evt_999", 52, patience)
	all := r.WaitCount(t, overTheWire+direct, patience)
	senderGroup.Wait()
	require.Len(t, all, overTheWire+direct)
	for i, request := range all {
		require.Equal(t, i+1, request.Number)
		require.Equal(t, "wbd_"+string(request.Body), request.DeliveryID())
	}
	for _, times := range r.Events() {
		require.Equal(t, 52, times)
	}
}

func TestVerifyWithNode_EachFault_Found(t *testing.T) {
	t.Parallel()
	first, second := signature.NewSecret(), signature.NewSecret()
	at := time.Unix(1_760_000_000, 0)
	body := []byte("{\"text\":\"\xff \U0001F642\"}\r\n")
	recorded := func(header string, secrets ...string) receiver.Recorded {
		return receiver.Recorded{Secrets: secrets, Request: receiver.Request{
			Header: http.Header{signature.Header: {header}, "X-Svc-Delivery-Id": {"wbd_1"}}, Body: body, At: at,
		}}
	}
	good := recorded(signature.Sign(at, body, first), first)
	good256, bad256 := recorded(signature.Sign(at, body, first), first), recorded(signature.Sign(at, body, first), first)
	good256.Header.Set(signature.Header256, signature.Sign256(body, first))
	bad256.Header.Set(signature.Header256, signature.Sign256(body, second))
	altered := recorded(signature.Sign(at, body, first), first)
	altered.Body = append(slices.Clone(body), '\n')

	found := receiver.VerifyWithNode(t, slices.Values([]receiver.Recorded{
		good, good256,
		recorded(signature.Sign(at, body, second, first), first, second),
		recorded(signature.Sign(at.Add(-300*time.Second), body, first), first),
		bad256, altered,
		recorded(signature.Sign(at, body, first, second), second),
		recorded(signature.Sign(at, body, first), first, second),
		recorded(signature.Sign(at, body, first, first), first, second),
		recorded(signature.Sign(at.Add(-301*time.Second), body, first), first),
		recorded(good.Header.Get(signature.Header)+"0", first),
		recorded("t=1760000000,v1=", first),
		recorded("t=1,"+good.Header.Get(signature.Header), first),
	}))
	steps := make([]string, 0, len(found.Failures))
	for _, failure := range found.Failures {
		require.Equal(t, "wbd_1", failure.DeliveryID)
		steps = append(steps, failure.Step)
	}
	require.Equal(t, []string{
		"no_match", "no_match", "segments", "segments", "no_match", "clock_skew", "malformed_header", "malformed_header", "malformed_header",
	}, steps)
	found.Failures = nil
	require.Equal(t, receiver.Verified{
		Total: 13, Verified: 4, SegmentMismatches: 2, ForeignSegments: 2, Signed256: 2, Failed: 9,
	}, found)
}

// Proofs verify fifty thousand deliveries.
func TestVerifyWithNode_ManyDeliveries_Verified(t *testing.T) {
	t.Parallel()
	const many = 50_000
	secret, body, at := signature.NewSecret(), bytes.Repeat([]byte("0123456789abcdef"), 64), time.Unix(1_760_000_000, 0)
	one := receiver.Recorded{Secrets: []string{secret}, Request: receiver.Request{
		Header: http.Header{signature.Header: {signature.Sign(at, body, secret)}}, Body: body, At: at,
	}}
	found := receiver.VerifyWithNode(t, slices.Values(slices.Repeat([]receiver.Recorded{one}, many)))
	require.Equal(t, receiver.Verified{Total: many, Verified: many, Failures: []receiver.Failure{}}, found)
}

package receiver

import (
	"cmp"
	"maps"
	"net/http"
	"sync"
	"time"
)

// Answer is the response to a request. The zero value is an empty 200.
type Answer struct {
	// Status is the status of the response. Zero means 200.
	Status     int
	Header     http.Header
	RetryAfter string
	Body       []byte
	// Zeroes is the number of zero bytes after the body, for responses that are too large.
	Zeroes int64
	// Delay is the time before the response begins.
	Delay time.Duration
	// Hold delays the response until the channel is closed. Nil does not delay it.
	Hold <-chan struct{}
	// Close closes the connection instead of responding. With a body or zeroes it closes the
	// connection before the response is complete.
	Close bool
}

// Always returns a function that gives every request the same answer.
func Always(answer Answer) func(Request) Answer { return func(Request) Answer { return answer } }

// Sequence returns a function that gives the answers in their order, and then always the last.
func Sequence(answers ...Answer) func(Request) Answer {
	next := turns(answers)
	var total int
	var mu sync.Mutex
	return func(Request) Answer {
		mu.Lock()
		defer mu.Unlock()
		total++
		return next(total)
	}
}

// PerDelivery is Sequence for the attempts of each delivery.
func PerDelivery(answers ...Answer) func(Request) Answer {
	next := turns(answers)
	seen := map[string]int{}
	var mu sync.Mutex
	return func(request Request) Answer {
		mu.Lock()
		defer mu.Unlock()
		seen[request.DeliveryID()]++
		return next(seen[request.DeliveryID()])
	}
}

// turns returns a function that gives the nth answer, from 1.
func turns(answers []Answer) func(int) Answer {
	if len(answers) == 0 {
		answers = []Answer{{}}
	}
	return func(n int) Answer { return answers[min(n, len(answers))-1] }
}

func (a Answer) send(w http.ResponseWriter, request *http.Request, closing <-chan struct{}) {
	if !a.wait(request, closing) {
		panic(http.ErrAbortHandler) // closes the connection without a log line
	}
	if a.Close && len(a.Body) == 0 && a.Zeroes == 0 {
		panic(http.ErrAbortHandler)
	}
	maps.Copy(w.Header(), a.Header)
	if a.RetryAfter != "" {
		w.Header().Set("Retry-After", a.RetryAfter)
	}
	w.WriteHeader(cmp.Or(a.Status, http.StatusOK))
	_, err := w.Write(a.Body)
	block := make([]byte, min(a.Zeroes, 32<<10))
	for left := a.Zeroes; left > 0 && err == nil; left -= int64(len(block)) {
		_, err = w.Write(block[:min(left, int64(len(block)))])
	}
	if a.Close {
		_ = http.NewResponseController(w).Flush() // what was written must arrive
		panic(http.ErrAbortHandler)
	}
}

// wait waits for Delay and Hold. It returns false when the client or the receiver has closed.
func (a Answer) wait(request *http.Request, closing <-chan struct{}) bool {
	await := func(hold <-chan struct{}, delay <-chan time.Time) bool {
		select {
		case <-hold:
			return true
		case <-delay:
			return true
		case <-request.Context().Done():
			return false
		case <-closing:
			return false
		}
	}
	return (a.Hold == nil || await(a.Hold, nil)) && (a.Delay <= 0 || await(nil, time.After(a.Delay)))
}

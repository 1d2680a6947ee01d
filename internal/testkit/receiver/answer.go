package receiver

import (
	"cmp"
	"maps"
	"net/http"
	"sync"
	"time"
)

// Answer is what a request gets. The zero value is an empty 200.
type Answer struct {
	// Status 0 means 200.
	Status     int
	Header     http.Header
	RetryAfter string
	Body       []byte
	// Zeroes follow the body, this many: an answer larger than anybody should read.
	Zeroes int64
	// Delay passes before the answer begins.
	Delay time.Duration
	// Hold keeps the answer back until it is closed.
	Hold <-chan struct{}
	// Close ends the connection instead of an answer; after a body or zeroes, in their midst.
	Close bool
}

// Always gives every request the same answer.
func Always(answer Answer) func(Request) Answer { return func(Request) Answer { return answer } }

// Sequence gives one answer after the other, whatever is asked, and the last one from then on.
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

// PerDelivery goes through the answers once for each delivery, by the requests that
// arrived for it.
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

// turns is the nth answer, from 1.
func turns(answers []Answer) func(int) Answer {
	if len(answers) == 0 {
		answers = []Answer{{}}
	}
	return func(n int) Answer { return answers[min(n, len(answers))-1] }
}

func (a Answer) send(w http.ResponseWriter, request *http.Request, closing <-chan struct{}) {
	if !a.wait(request, closing) {
		panic(http.ErrAbortHandler) // quietly ends the connection
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

// wait tells whether anybody is left to answer.
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

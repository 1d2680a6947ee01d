package telemetry

import (
	"maps"
	"net/http"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// other replaces every label that is not in its set.
const other = "OTHER"

// Metrics is the registry of a process and the counters of its HTTP servers.
type Metrics struct {
	registry *prometheus.Registry
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	inFlight prometheus.Gauge
	shed     *prometheus.CounterVec

	// known is replaced as a whole, so that requests read it without a lock.
	known   atomic.Pointer[map[requestKey]requestSeries]
	mu      sync.Mutex
	routes  labelSet
	classes labelSet
}

type requestKey struct {
	route, method string
	status        int
}

type requestSeries struct {
	requests prometheus.Counter
	seconds  prometheus.Observer
}

// NewMetrics returns a registry with the metrics of the Go runtime, the process and the build.
func NewMetrics(version string) *Metrics {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	factory := promauto.With(registry)
	factory.NewGaugeVec(prometheus.GaugeOpts{
		Name: "parley_build_info",
		Help: "Always 1; the labels say what runs.",
	}, []string{"version", "go"}).WithLabelValues(version, runtime.Version()).Set(1)
	m := &Metrics{
		registry: registry,
		requests: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "parley_http_requests_total",
			Help: "Requests answered.",
		}, []string{"route", "method", "status"}),
		seconds: factory.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "parley_http_request_seconds",
			Help:    "Time from a request's first byte to its answer.",
			Buckets: []float64{.002, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10},
		}, []string{"route", "method"}),
		inFlight: factory.NewGauge(prometheus.GaugeOpts{
			Name: "parley_http_requests_in_flight",
			Help: "Requests being answered.",
		}),
		shed: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "parley_http_shed_total",
			Help: "Requests turned away under overload, by class.",
		}, []string{"class"}),
		routes:  labelSet{most: 200},
		classes: labelSet{most: 10},
	}
	m.known.Store(&map[requestKey]requestSeries{})
	return m
}

// Registerer registers the metrics of other packages.
func (m *Metrics) Registerer() prometheus.Registerer { return m.registry }

// Gatherer reads all metrics, for tests and the doctor command.
func (m *Metrics) Gatherer() prometheus.Gatherer { return m.registry }

// Handler serves /metrics on the operator listener.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{Registry: m.registry})
}

// RequestStarted counts a request as in flight until RequestEnded.
func (m *Metrics) RequestStarted() { m.inFlight.Inc() }

// RequestEnded must be deferred, because a panic ends a request too.
func (m *Metrics) RequestEnded() { m.inFlight.Dec() }

// ObserveRequest counts a response. Route is the pattern that matched, never the path.
func (m *Metrics) ObserveRequest(route, method string, status int, seconds float64) {
	key := requestKey{route, knownMethod(method), status}
	series, found := (*m.known.Load())[key]
	if !found {
		series = m.resolve(key)
	}
	series.requests.Inc()
	series.seconds.Observe(seconds)
}

// Shed counts a request that was refused because of overload. Class is one of the few classes of
// load shedding.
func (m *Metrics) Shed(class string) { m.shed.WithLabelValues(m.classes.fold(class)).Inc() }

// resolve returns the series of the labels and caches it. Labels beyond the bounds become OTHER
// and are not cached.
func (m *Metrics) resolve(key requestKey) requestSeries {
	m.mu.Lock()
	defer m.mu.Unlock()
	label := key
	label.route = m.routes.fold(key.route)
	series := requestSeries{
		requests: m.requests.WithLabelValues(label.route, label.method, statusLabel(label.status)),
		seconds:  m.seconds.WithLabelValues(label.route, label.method),
	}
	if label == key && validStatus(key.status) {
		earlier := *m.known.Load()
		next := make(map[requestKey]requestSeries, len(earlier)+1)
		maps.Copy(next, earlier)
		next[key] = series
		m.known.Store(&next)
	}
	return series
}

func validStatus(status int) bool { return status >= 100 && status <= 599 }

func statusLabel(status int) string {
	if !validStatus(status) {
		return other
	}
	return strconv.Itoa(status)
}

func knownMethod(method string) string {
	switch method {
	case http.MethodGet, http.MethodPost, http.MethodPatch, http.MethodPut, http.MethodDelete, http.MethodHead, http.MethodOptions:
		return method
	default:
		return other
	}
}

// labelSet bounds the number of series, even if a caller passes raw paths by mistake: when the set
// is full, further labels become OTHER.
type labelSet struct {
	most int
	mu   sync.Mutex
	seen map[string]bool
}

func (s *labelSet) fold(label string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen[label] {
		return label
	}
	if label == "" || len(s.seen) >= s.most {
		return other
	}
	if s.seen == nil {
		s.seen = map[string]bool{}
	}
	s.seen[label] = true
	return label
}

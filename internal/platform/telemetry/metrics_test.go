package telemetry_test

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/platform/telemetry"
)

func scrape(t testing.TB, m *telemetry.Metrics) string {
	t.Helper()
	answer := httptest.NewRecorder()
	m.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	require.Equal(t, http.StatusOK, answer.Code)
	return answer.Body.String()
}

func TestMetrics_ObserveRequest_Counted(t *testing.T) {
	t.Parallel()
	m := telemetry.NewMetrics("1.2.3")
	m.RequestStarted()
	m.RequestStarted()
	m.RequestEnded()
	m.ObserveRequest("/v1/labels/{id}", "GET", 200, 0.004)
	m.ObserveRequest("/v1/labels/{id}", "GET", 200, 0.004)
	m.ObserveRequest("/v1/labels/{id}", "GET", 404, 3)
	m.ObserveRequest("", "BREW", 999, 1)
	m.Shed("list")
	m.Shed("")
	text := scrape(t, m)
	for _, line := range []string{
		`parley_http_requests_total{method="GET",route="/v1/labels/{id}",status="200"} 2`,
		`parley_http_requests_total{method="GET",route="/v1/labels/{id}",status="404"} 1`,
		`parley_http_requests_total{method="OTHER",route="OTHER",status="OTHER"} 1`,
		`parley_http_request_seconds_bucket{method="GET",route="/v1/labels/{id}",le="0.005"} 2`,
		`parley_http_request_seconds_count{method="GET",route="/v1/labels/{id}"} 3`,
		`parley_http_requests_in_flight 1`,
		`parley_http_shed_total{class="list"} 1`,
		`parley_http_shed_total{class="OTHER"} 1`,
		`parley_build_info{go="go1.`,
		`version="1.2.3"} 1`,
		"go_goroutines ", "process_open_fds ",
	} {
		assert.Contains(t, text, line)
	}
}

func TestMetrics_TooManyRoutes_FoldedToOther(t *testing.T) {
	t.Parallel()
	m := telemetry.NewMetrics("test")
	for i := range 5000 {
		m.ObserveRequest("/v1/labels/lbl_"+strconv.Itoa(i), "X"+strconv.Itoa(i), 1000+i, 0.1)
		m.Shed(strconv.Itoa(i))
	}
	text := scrape(t, m)
	assert.Less(t, strings.Count(text, "\nparley_http_requests_total{"), 202)
	assert.Equal(t, 11, strings.Count(text, "\nparley_http_shed_total{"))
	assert.Contains(t, text, `route="OTHER"`)
	assert.Contains(t, text, `parley_http_requests_total{method="OTHER",route="/v1/labels/lbl_0",status="OTHER"} 1`)
}

func TestMetrics_Registerer_MetricsOfOthersServed(t *testing.T) {
	t.Parallel()
	m := telemetry.NewMetrics("test")
	m.Registerer().MustRegister(prometheus.NewCounter(prometheus.CounterOpts{Name: "parley_guest_total", Help: "A guest."}))
	assert.Contains(t, scrape(t, m), "parley_guest_total 0")
}

func BenchmarkMetrics_ObserveRequest(b *testing.B) {
	m := telemetry.NewMetrics("bench")
	b.ReportAllocs()
	for b.Loop() {
		m.ObserveRequest("/v1/{phone_number_id}/messages", "POST", 202, 0.012)
	}
}

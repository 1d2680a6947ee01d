package ratelimit

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	allowed, refused        prometheus.Counter
	redisCalls, redisErrors prometheus.Counter
	fallback                prometheus.Gauge
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	factory := promauto.With(registerer)
	decisions := factory.NewCounterVec(prometheus.CounterOpts{
		Name: "parley_ratelimit_decisions_total",
		Help: "Requests that asked for a token, by result.",
	}, []string{"result"})
	return &metrics{
		allowed: decisions.WithLabelValues("allowed"),
		refused: decisions.WithLabelValues("refused"),
		redisCalls: factory.NewCounter(prometheus.CounterOpts{
			Name: "parley_ratelimit_redis_calls_total",
			Help: "Blocks of tokens asked of Redis, probes included.",
		}),
		redisErrors: factory.NewCounter(prometheus.CounterOpts{
			Name: "parley_ratelimit_redis_errors_total",
			Help: "Questions that Redis did not answer within the budget.",
		}),
		fallback: factory.NewGauge(prometheus.GaugeOpts{
			Name: "parley_ratelimit_redis_fallback",
			Help: "1 while limits are kept per process because Redis does not answer.",
		}),
	}
}

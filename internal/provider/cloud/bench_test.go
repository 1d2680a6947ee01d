package cloud_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkParse reads a full batch: a thousand statuses in one body.
func BenchmarkParse(b *testing.B) {
	statuses := make([]string, 1000)
	for i := range statuses {
		statuses[i] = fmt.Sprintf(`{"id":"wamid.HBgLMTU1NTAxMDAwMDEVAgARGBI%04d","status":"delivered","timestamp":"1763197200",`+
			`"recipient_id":"15550100001","recipient_user_id":"US.13491208655302741918","biz_opaque_callback_data":"msg_01M7FHW4SYF6Q6D0QYFX3MPSZN:1",`+
			`"pricing":{"billable":true,"pricing_model":"PMP","type":"regular","category":"utility"}}`, i)
	}
	body := []byte(`{"object":"whatsapp_business_account","entry":[{"id":"4","changes":[{"field":"messages","value":{"messaging_product":"whatsapp",` +
		`"metadata":{"display_phone_number":"15550199001","phone_number_id":"1"},"contacts":[{"profile":{"name":"Ada"},"wa_id":"15550100001"}],` +
		`"statuses":[` + strings.Join(statuses, ",") + `]}}]}]}`)
	client := parser(b)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		notifications, err := client.Parse(body)
		require.NoError(b, err)
		require.Len(b, notifications, 1000)
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/1000, "µs/item")
}

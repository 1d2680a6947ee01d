package callbacks

import "time"

// WithTimeout sets how long a callback may take, because the machine of a test may be slow.
func (i *Ingress) WithTimeout(timeout time.Duration) *Ingress {
	i.timeout = timeout
	return i
}

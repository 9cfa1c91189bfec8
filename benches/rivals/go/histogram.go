package main

import (
	"encoding/base64"
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
	"time"
)

// The bounds of the histograms of urgo-bench: from 1 ns to a minute, three significant digits.
const (
	latencyMax      = time.Minute
	latencyDigits   = 3
	subBuckets      = 2048
	subBucketsShift = 10
)

// setLatencies keeps the latencies, in the form in which urgo-bench keeps its own, and sets the usual quantiles.
func (s *sample) setLatencies(latencies []time.Duration) {
	if len(latencies) == 0 {
		fail("no latency was measured")
	}
	slices.Sort(latencies)
	at := func(quantile float64) float64 {
		rank := int(math.Ceil(quantile * float64(len(latencies))))
		return float64(latencies[max(rank, 1)-1]) / 1e3
	}
	s.Metrics["p50_us"] = at(0.50)
	s.Metrics["p99_us"] = at(0.99)
	s.Metrics["p999_us"] = at(0.999)
	s.Metrics["max_us"] = at(1)
	s.Latencies = histogram(latencies)
}

// histogram is an HdrHistogram, V2, in base64, of latencies in ascending order.
func histogram(latencies []time.Duration) string {
	last := latencies[len(latencies)-1]
	counts := make([]int64, bucket(last)+1)
	for _, latency := range latencies {
		counts[bucket(latency)]++
	}
	var body []byte
	for at := 0; at < len(counts); {
		zeros := 0
		for counts[at+zeros] == 0 {
			zeros++
		}
		switch {
		case zeros > 1:
			// A run of empty buckets is one negative number.
			body = binary.AppendVarint(body, int64(-zeros))
			at += zeros
		default:
			body = binary.AppendVarint(body, counts[at])
			at++
		}
	}
	const cookie = 0x1c849313
	out := binary.BigEndian.AppendUint32(nil, cookie)
	out = binary.BigEndian.AppendUint32(out, uint32(len(body)))
	out = binary.BigEndian.AppendUint32(out, 0) // offset of the first index
	out = binary.BigEndian.AppendUint32(out, latencyDigits)
	out = binary.BigEndian.AppendUint64(out, 1) // lowest value
	out = binary.BigEndian.AppendUint64(out, uint64(latencyMax))
	out = binary.BigEndian.AppendUint64(out, math.Float64bits(1)) // factor of values
	return base64.StdEncoding.EncodeToString(append(out, body...))
}

// bucket is the index of the bucket that counts this latency: buckets become twice as wide with each power of two beyond
// subBuckets.
func bucket(latency time.Duration) int {
	value := uint64(min(max(latency, 0), latencyMax))
	shift := bits.Len64(value|(subBuckets-1)) - bits.Len64(subBuckets-1)
	return (shift+1)<<subBucketsShift + int(value>>shift) - subBuckets/2
}

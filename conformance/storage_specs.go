package conformance

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/onsi/gomega"

	"github.com/batleforc/batlehub-sandbox/conformance/internal/attempt"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// storageWalls are what a storage endpoint in reach does not give away: whoever
// is inside can try every request there is against it.
func storageWalls() []Spec {
	w := func(id, title, why string, check func(*T)) Spec {
		return Spec{ID: id, Group: Walled, Title: title, Why: why, Needs: []Capability{Walls, Storage}, Control: Either, check: check}
	}
	return []Spec{
		w("W85", "an unsigned request is refused, whatever it asks for", "The storage endpoint is inside the wall: without a signature it has to refuse reading, writing, listing and removing alike.", unsigned),
		w("W86", "a signed URL is of no use beyond its key and its method", "What is signed is one method on one key, and a length: it must not list, write, remove, reach a neighbour's key or take more.", signedElsewhere),
		w("W87", "a forged result at the result's key is refused", "Whoever holds the URL can put anything there; what has not the run's seal is no answer, and its key is gone all the same.", forgedAtKey),
		w("W88", "a result above the ceiling is never read", "The worker asks for the size before it reads, whatever the backend honoured of what was signed.", oversized),
		w("W89", "keys are deleted before the result is looked at", "A result that is hostile, or that ends the worker that reads it, must not leave its key behind.", deletedFirst),
	}
}

// store is the target's storage, which a claim has to come with.
func (t *T) store() *Store {
	if t.s.target.Store == nil || !t.s.target.Allowed.IsValid() {
		t.Broke("the target claims storage, and does not say which")
	}
	return t.s.target.Store
}

// plantObject puts an object beside the bundles, for as long as the spec runs.
func (t *T) plantObject(content []byte) (key string) {
	key = "planted-" + t.s.token + "/" + t.job()
	leaf := t.store().Backend
	if err := leaf.Put(t.ctx, key, bytes.NewReader(content), int64(len(content))); err != nil {
		t.Broke("planting an object: %v", err)
	}
	t.Cleanup(func() {
		for _, k := range []string{key, key + "-other", key + "-put"} {
			_ = leaf.Delete(t.ctx, k)
		}
	})
	return key
}

func (t *T) signedGet(key string) *url.URL {
	raw, err := t.store().PresignGet(t.ctx, key, time.Minute)
	return t.parsed(raw, err)
}

func (t *T) signedPut(key string, size int64) *url.URL {
	raw, err := t.store().PresignPut(t.ctx, key, time.Minute, size)
	return t.parsed(raw, err)
}

func (t *T) parsed(raw string, err error) *url.URL {
	if err != nil {
		t.Broke("signing a URL: %v", err)
	}
	u, err := url.Parse(raw)
	if err != nil {
		t.Broke("a signed URL that does not parse: %v", err)
	}
	return u
}

// request is one that the hostile program makes, as it is told of it: method,
// target, and how long a body; -1 sends one in chunks without saying how long.
func request(method string, u *url.URL, body int) string {
	return method + " " + strconv.Itoa(body) + " " + u.RequestURI()
}

// statuses are what the storage endpoint answered to each request.
func (t *T) asks(host string, requests ...string) map[string]int {
	args := append([]string{t.s.target.Allowed.String(), host}, requests...)
	r := t.Hostile("http", args...)
	answers := map[string]int{}
	for _, request := range requests {
		answer := one(r.Values[request])
		status, err := strconv.Atoi(answer)
		t.Expect(err).NotTo(gomega.HaveOccurred(), "%s was answered by no status: %s", redact(request), answer)
		answers[request] = status
	}
	return answers
}

func unsigned(t *T) {
	key := t.plantObject([]byte("a secret of the bucket's"))
	u := t.signedGet(key)
	bare := &url.URL{Path: u.Path}
	bucket := &url.URL{Path: "/" + strings.Split(strings.TrimPrefix(u.Path, "/"), "/")[0] + "/"}
	other := &url.URL{Path: u.Path + "-other"}
	list := func(u *url.URL, query string) *url.URL { c := *u; c.RawQuery = query; return &c }
	requests := []string{
		request("GET", bare, 0), request("HEAD", bare, 0), request("PUT", bare, 5), request("PUT", other, 5), request("DELETE", bare, 0),
		request("POST", list(bare, "uploads"), 0), request("GET", other, 0), request("GET", bucket, 0), request("GET", list(bucket, "list-type=2"), 0),
		request("GET", list(bucket, "versions"), 0), request("GET", list(bucket, "policy"), 0), request("PUT", list(bucket, "policy"), 5),
		request("DELETE", bucket, 0), request("GET", &url.URL{Path: "/"}, 0),
	}
	for asked, status := range t.asks(u.Host, requests...) {
		t.Expect(status).To(gomega.Equal(403), "%s", asked)
	}
	t.untouched(key, []byte("a secret of the bucket's"))
}

// untouched looks that an object is as it was and that it has no neighbour.
func (t *T) untouched(key string, content []byte) {
	body, _, err := t.store().Backend.Get(t.ctx, key)
	t.Expect(err).NotTo(gomega.HaveOccurred(), "the object is gone")
	defer func() { _ = body.Close() }()
	got, err := io.ReadAll(body)
	t.Expect(err).NotTo(gomega.HaveOccurred())
	t.Expect(got).To(gomega.Equal(content), "the object was changed")
	_, err = t.store().Backend.Head(t.ctx, key+"-other")
	t.Expect(err).To(gomega.HaveOccurred(), "an object was made beside it")
}

func signedElsewhere(t *T) {
	content := []byte("one object and no other")
	key := t.plantObject(content)
	get, put := t.signedGet(key), t.signedPut(key+"-put", 9)
	at := func(u *url.URL, path, more string) *url.URL {
		c := *u
		if path != "" {
			c.Path = path
		}
		c.RawQuery = more + c.RawQuery
		return &c
	}
	bucket := "/" + strings.Split(strings.TrimPrefix(get.Path, "/"), "/")[0] + "/"
	good := request("GET", get, 0)
	refused := []string{
		request("PUT", get, 5), request("DELETE", get, 0), request("HEAD", get, 0), request("POST", get, 5),
		request("GET", at(get, get.Path+"-other", ""), 0), request("GET", at(get, bucket, "list-type=2&"), 0), request("GET", at(get, "", "versions=&"), 0),
		request("PUT", put, 10), request("PUT", put, 8), request("PUT", put, 0), request("PUT", put, -1), request("GET", put, 0), request("DELETE", put, 0),
		request("PUT", at(put, get.Path, ""), 9), request("PUT", at(put, get.Path+"-other", ""), 9), request("PUT", at(put, "", "partNumber=1&uploadId=x&"), 9),
	}
	answers := t.asks(get.Host, append([]string{good}, refused...)...)
	t.Expect(answers[good]).To(gomega.Equal(200), "the signed request itself, or nothing was shown by the others")
	for _, asked := range refused {
		t.Expect(answers[asked]).To(gomega.BeElementOf(400, 403, 411), "%s", redact(asked))
	}
	t.untouched(key, content)
	_, err := t.store().Backend.Head(t.ctx, key+"-put")
	t.Expect(err).To(gomega.HaveOccurred(), "what was refused is there")
	last := request("PUT", put, 9)
	t.Expect(t.asks(put.Host, last)[last]).To(gomega.Equal(200), "the length that was signed")
}

func forgedAtKey(t *T) {
	forged := forgedResult(t)
	store := t.store()
	t.Cleanup(store.Truth)
	store.Lie(t.job(), Lie{Content: forged, Size: int64(len(forged))})
	out, err := t.Run(t.HostileSpec("print", "honest"))
	t.Expect(err).To(gomega.HaveOccurred(), "a result with a seal of somebody else's was taken: %q", out.Stdout)
	t.Expect(sandbox.KindOf(err)).To(gomega.Equal(sandbox.ResultInvalid), "%v", err)
	t.Expect(sandbox.CodeOf(err)).To(gomega.Equal(sandbox.CodeForged), "%v", err)
}

func oversized(t *T) {
	store := t.store()
	t.Cleanup(store.Truth)
	store.Lie(t.job(), Lie{Content: make([]byte, 1<<10), Size: wire.ResultTarCap + 1})
	out, err := t.Run(t.HostileSpec("print", "honest"))
	t.Expect(err).To(gomega.HaveOccurred(), "a result above the ceiling was taken: %q", out.Stdout)
	t.Expect(sandbox.KindOf(err)).To(gomega.Equal(sandbox.ResultInvalid), "%v", err)
	for _, c := range t.resultCalls() {
		t.Expect(c.Op).NotTo(gomega.Equal("get"), "the size was not asked for before the object was read")
	}
}

// resultCalls are the worker's calls about this spec's results.
func (t *T) resultCalls() []StoreCall {
	calls := slices.DeleteFunc(t.store().Calls(t.job()), func(c StoreCall) bool { return !strings.HasSuffix(c.Key, resultKey) })
	t.note("calls about the result", fmt.Sprint(calls))
	return calls
}

func deletedFirst(t *T) {
	store := t.store()
	t.Cleanup(store.Truth)
	store.Lie(t.job(), Lie{Content: []byte("no tar at all"), Size: 13})
	_, err := t.Run(t.HostileSpec("print", "honest"))
	t.Expect(sandbox.KindOf(err)).To(gomega.Equal(sandbox.ResultInvalid), "%v", err)
	var ops []string
	for _, c := range t.resultCalls() {
		ops = append(ops, c.Op)
	}
	t.Expect(ops).To(gomega.ContainElement("delete"), "a result that does not parse leaves its key")
	t.Expect(slices.Index(ops, "head")).To(gomega.BeNumerically("<", slices.Index(ops, "get")))
	t.Expect(slices.Index(ops, "get")).To(gomega.BeNumerically("<", slices.Index(ops, "delete")))
}

// oneWayOut looks from inside for every way that leads anywhere else than to
// the one destination that a run without network has.
func oneWayOut(t *T, allowed netip.AddrPort) {
	args := []string{allowed.String()}
	for _, port := range []uint16{22, 53, 80, 443, 2375, 8080, allowed.Port() - 1, allowed.Port() + 1} {
		args = append(args, netip.AddrPortFrom(allowed.Addr(), port).String())
	}
	if t.s.plants.tcp != nil {
		args = append(args, t.s.plants.tcp.Addr().String())
		// A listener on every address of the host answers at the gateway's too.
		l, err := net.Listen("tcp", ":0")
		if err != nil {
			t.Broke("listening: %v", err)
		}
		go t.s.plants.accept(l)
		t.Cleanup(func() { _ = l.Close() })
		_, port, _ := net.SplitHostPort(l.Addr().String())
		args = append(args, "neighbours:"+port)
	}
	if t.s.plants.tcp6 != nil {
		args = append(args, t.s.plants.tcp6.Addr().String())
	}
	args = append(args, "1.1.1.1:53", "169.254.169.254:80", "neighbours:53", "neighbours:22", fmt.Sprintf("neighbours:%d", allowed.Port()))
	r := t.Hostile("ways-out", args...)
	t.Expect(r.Values["allowed"]).To(gomega.Equal([]string{"open"}), "the one destination is not reached, so the others say nothing: %v", r.Values["allowed"])
	t.Expect(len(r.Values["interfaces"])).To(gomega.BeNumerically(">=", 1), "which interfaces there are was not told")
	t.Expect(r.Values["tried"]).NotTo(gomega.BeEmpty())
	for _, c := range r.Calls {
		if _, address, _ := strings.Cut(c.Name, " "); !t.resolves(address) {
			t.Fail("%s: a packet arrived (%s)", c.Name, cmp.Or(c.Errno, "and was answered"))
		}
	}
	t.Expect(t.s.plants.accepted.Load()).To(gomega.Equal(t.accepted), "somebody came to the planted listener")
}

// resolves says whether an address is a resolver's that the target allows.
func (t *T) resolves(address string) bool {
	return slices.ContainsFunc(t.s.target.Resolvers, func(r netip.AddrPort) bool { return r.String() == address })
}

// interfacesOrOneWay is W78 for both kinds of targets.
func interfacesOrOneWay(t *T, r attempt.Report) {
	if allowed := t.s.target.Allowed; allowed.IsValid() {
		oneWayOut(t, allowed)
		return
	}
	t.Expect(r.Achieved).To(gomega.BeFalse(), "achieved: %s", r.Detail)
}

// nobodyComesIn is W80: who has no address can't be reached; who has one is
// tried from outside, at a port that is listened on inside.
func nobodyComesIn(t *T, r attempt.Report) {
	if !t.s.target.Allowed.IsValid() {
		t.Expect(r.Achieved).To(gomega.BeFalse(), "achieved: %s", r.Detail)
		return
	}
	port := t.port()
	over, done := make(chan struct{}), make(chan struct{})
	var tried []string
	var reached []string
	go func() {
		defer close(done)
		tried, reached = t.knockAround(port, over)
	}()
	held := t.Hostile("listen-for", port, "3s")
	close(over)
	<-done
	var met []string
	for _, address := range held.Values["addresses"] {
		if slices.Contains(tried, address) {
			met = append(met, address)
		}
	}
	t.note("tried from outside", strings.Join(met, " "))
	if len(met) == 0 {
		t.Broke("none of the sandbox's addresses %v was tried from this host", held.Values["addresses"])
	}
	t.Expect(reached).To(gomega.BeEmpty(), "a port that is listened on inside was reached from this host")
	t.Expect(held.Achieved).To(gomega.BeFalse(), "somebody came in: %s", held.Detail)
}

// port is one that this session uses inside sandboxes.
func (t *T) port() string {
	n, _ := strconv.ParseUint(t.s.token[:4], 16, 32)
	return strconv.FormatUint(20_000+n%20_000, 10)
}

// knockAround tries every address of every small network that this host gets
// an interface in, and those that the target names, again and again until over
// is closed: no clock knows how long a run takes to get where it listens.
func (t *T) knockAround(port string, over <-chan struct{}) (tried, reached []string) {
	var knocking sync.WaitGroup
	var mu sync.Mutex
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for {
		for _, address := range t.outside() {
			if slices.Contains(tried, address) {
				continue
			}
			tried = append(tried, address)
			knocking.Go(func() {
				if knock(net.JoinHostPort(address, port), over) {
					mu.Lock()
					defer mu.Unlock()
					reached = append(reached, address)
				}
			})
		}
		select {
		case <-again.C:
		case <-over:
			knocking.Wait()
			return tried, reached
		}
	}
}

// knock connects again and again until somebody answers or over is closed.
func knock(address string, over <-chan struct{}) bool {
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for {
		if conn, err := net.DialTimeout("tcp", address, 500*time.Millisecond); err == nil {
			_ = conn.Close()
			return true
		}
		select {
		case <-again.C:
		case <-over:
			return false
		}
	}
}

// outside are the addresses to try from this host.
func (t *T) outside() []string {
	list := smallNeighbours()
	if t.s.target.Addresses == nil {
		return list
	}
	named, err := t.s.target.Addresses(t.ctx, t.s.setup)
	if err != nil {
		return list
	}
	for _, a := range named {
		list = append(list, a.String())
	}
	return list
}

// smallNeighbours are the addresses of networks of at most 64 that this host
// has an interface in, its own left out.
func smallNeighbours() []string {
	list, err := net.InterfaceAddrs()
	if err != nil {
		return nil
	}
	var found []string
	for _, a := range list {
		p, err := netip.ParsePrefix(a.String())
		if err != nil || !p.Addr().Is4() || p.Bits() < 26 || p.Addr().IsLoopback() {
			continue
		}
		for address := p.Masked().Addr().Next(); p.Contains(address); address = address.Next() {
			if address != p.Addr() {
				found = append(found, address.String())
			}
		}
	}
	return found
}

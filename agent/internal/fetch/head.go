package fetch

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// errMalformed is an answer that is no HTTP as this client speaks it.
var errMalformed = errors.New("malformed answer")

// headCap bounds an answer's status line and headers, in bytes.
const headCap = 64 << 10

// head is an answer's status, the announced length of its body (-1 for none)
// and the body.
type head struct {
	status int
	length int64
	body   io.Reader
}

// readHead reads up to the body, past the informational answers that a server
// may send first.
func readHead(r *bufio.Reader) (head, error) {
	budget := headCap
	for {
		h, err := readOneHead(r, &budget)
		if err != nil || h.status < 100 || h.status >= 200 {
			return h, err
		}
	}
}

func readOneHead(r *bufio.Reader, budget *int) (head, error) {
	line, err := readLine(r, budget)
	if err != nil {
		return head{}, err
	}
	status, err := parseStatus(line)
	if err != nil {
		return head{}, err
	}
	h := head{status: status, length: -1}
	chunked := false
	for {
		line, err := readLine(r, budget)
		if err != nil {
			return head{}, err
		}
		if line == "" {
			break
		}
		name, value, ok := strings.Cut(line, ":")
		if !ok || name == "" || strings.ContainsAny(name, " \t") {
			return head{}, fmt.Errorf("%w: a header line", errMalformed)
		}
		if err := h.header(strings.ToLower(name), strings.Trim(value, " \t"), &chunked); err != nil {
			return head{}, err
		}
	}
	return h.withBody(r, chunked)
}

func (h *head) header(name, value string, chunked *bool) error {
	switch name {
	case "content-length":
		n, err := strconv.ParseUint(value, 10, 63)
		if err != nil || h.length >= 0 && h.length != int64(n) {
			return fmt.Errorf("%w: content-length", errMalformed)
		}
		h.length = int64(n)
	case "transfer-encoding":
		if *chunked || !strings.EqualFold(value, "chunked") {
			return fmt.Errorf("%w: transfer-encoding", errMalformed)
		}
		*chunked = true
	case "content-encoding":
		// "aws-chunked" is how an object was uploaded; some servers repeat it
		// although what they send is the object (seen: versitygw 1.8).
		if value != "" && !strings.EqualFold(value, "identity") && !strings.EqualFold(value, "aws-chunked") {
			return fmt.Errorf("%w: content-encoding", errMalformed)
		}
	}
	return nil
}

// withBody picks the one way in which the body ends. Two ways at once are how
// one answer is read as two.
func (h head) withBody(r *bufio.Reader, chunked bool) (head, error) {
	switch {
	case chunked && h.length >= 0:
		return head{}, fmt.Errorf("%w: both content-length and transfer-encoding", errMalformed)
	case chunked:
		h.body = &chunks{r: r}
	case h.length >= 0:
		h.body = &exactly{r: r, left: h.length}
	default:
		h.body = r
	}
	return h, nil
}

func parseStatus(line string) (int, error) {
	version, rest, _ := strings.Cut(line, " ")
	code, _, _ := strings.Cut(rest, " ")
	status, err := strconv.ParseUint(code, 10, 16)
	if (version != "HTTP/1.1" && version != "HTTP/1.0") || len(code) != 3 || err != nil || status < 100 {
		return 0, fmt.Errorf("%w: the status line", errMalformed)
	}
	return int(status), nil
}

// readLine reads a line without its end, within what is left of the budget.
func readLine(r *bufio.Reader, budget *int) (string, error) {
	var line []byte
	for {
		piece, err := r.ReadSlice('\n')
		if *budget -= len(piece); *budget < 0 {
			return "", fmt.Errorf("%w: the head has more than %d bytes", errMalformed, headCap)
		}
		line = append(line, piece...)
		switch {
		case err == nil:
			return strings.TrimSuffix(string(line[:len(line)-1]), "\r"), nil
		case errors.Is(err, io.EOF):
			return "", io.ErrUnexpectedEOF
		case !errors.Is(err, bufio.ErrBufferFull):
			return "", err
		}
	}
}

// exactly reads a body of a known length; less than that is an error.
type exactly struct {
	r    io.Reader
	left int64
}

func (e *exactly) Read(b []byte) (int, error) {
	if e.left == 0 {
		return 0, io.EOF
	}
	n, err := e.r.Read(b[:min(int64(len(b)), e.left)])
	e.left -= int64(n)
	if errors.Is(err, io.EOF) && e.left > 0 {
		err = fmt.Errorf("the connection ended with %d bytes missing: %w", e.left, io.ErrUnexpectedEOF)
	}
	return n, err
}

// chunks reads a chunked body. What comes behind the last chunk is not read:
// the connection carries nothing else.
type chunks struct {
	r    *bufio.Reader
	left int64
	any  bool
	done bool
}

func (c *chunks) Read(b []byte) (int, error) {
	if c.done {
		return 0, io.EOF
	}
	if c.left == 0 {
		if err := c.next(); err != nil {
			return 0, err
		}
		if c.done {
			return 0, io.EOF
		}
	}
	n, err := c.r.Read(b[:min(int64(len(b)), c.left)])
	c.left -= int64(n)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// next reads the size line of a chunk, and the end of the one before.
func (c *chunks) next() error {
	const lineCap = 256
	budget := lineCap
	if c.any {
		if end, err := readLine(c.r, &budget); err != nil || end != "" {
			return orMalformed(err, "the end of a chunk")
		}
	}
	line, err := readLine(c.r, &budget)
	if err != nil {
		return err
	}
	size, _, _ := strings.Cut(line, ";")
	n, err := strconv.ParseUint(strings.TrimRight(size, " \t"), 16, 63)
	if err != nil {
		return orMalformed(nil, "the size of a chunk")
	}
	c.any, c.left, c.done = true, int64(n), n == 0
	return nil
}

func orMalformed(err error, what string) error {
	if err != nil {
		return err
	}
	return fmt.Errorf("%w: %s", errMalformed, what)
}

package conformance_test

import (
	"context"
	"testing"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"

	"github.com/batleforc/batlehub-sandbox/conformance"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
)

// described is filled in by the suite's own set-up, after Describe.
var (
	described        conformance.Target
	describedOptions = conformance.Options{
		Programs: map[string]string{}, Bounds: conformance.DefaultBounds(),
		Focus: func(s conformance.Spec) bool { return s.ID == "C19" || s.ID == "C26" || s.ID == "C29" || s.ID == "P01" },
	}
	_ = conformance.Describe(&described, describedOptions)
)

func TestDescribeRunsInsideOnesOwnGinkgoSuite(t *testing.T) {
	name, err := hostile()
	if err != nil {
		t.Fatal(err)
	}
	describedOptions.Programs["hostile"] = name
	describedOptions.Out = ""
	described = *fake(func(context.Context, sandbox.RunSpec) (sandbox.RunOutput, error) {
		return sandbox.RunOutput{}, context.Canceled
	})
	gomega.RegisterFailHandler(ginkgo.Fail)
	suite, reporter := ginkgo.GinkgoConfiguration()
	reporter.Succinct = true
	passed := ginkgo.RunSpecs(t, "a caller's own suite", suite, reporter)
	if !passed {
		t.Error("the suite did not pass")
	}
}

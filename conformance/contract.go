package conformance

func contractSpecs() []Spec {
	c := func(id, title, why string, needs []Capability, check func(*T)) Spec {
		return Spec{ID: id, Group: Contract, Title: title, Why: why, Needs: needs, check: check}
	}
	results, timeouts, images := []Capability{Results}, []Capability{Timeouts}, []Capability{Results, Images}
	return []Spec{
		c("C01", "a run brings an answer back", "A run is one bundle, one argv and one fresh instance, and what the scanner printed and exited with comes back, for without it nothing else means anything.", results, aRunAnswers),
		c("C02", "every exit status is an answer", "A scanner's status says what it found, so each of them arrives as it is and none becomes an error.", results, statuses),
		c("C03", "a signal is no status", "A scanner that a signal killed has no status, and the signal is named, so that a crash is never read as a finding.", results, signals),
		c("C04", "stdout arrives byte for byte", "Findings are compared byte for byte between runtimes, so all 256 byte values arrive in order.", results, stdoutBytes),
		c("C05", "stdout up to the cap is whole", "The cap is what a caller may rely on: an output of exactly that size is an answer.", results, stdoutAtCap),
		c("C06", "stdout above the cap is an error and no answer", "A truncated list of findings would hide some, so one byte too many makes the run an error.", results, stdoutAboveCap),
		c("C07", "the end of stderr is kept", "The last lines say why a scanner failed; the rest is dropped, so that it costs nobody memory.", results, stderrTail),
		c("C08", "argv arrives as it was given", "No shell stands between the caller and the scanner, or an argument would be a way to run something else.", results, argvVerbatim),
		c("C09", "the environment is HOME and PATH", "A scanner's environment is always exactly HOME and PATH, so that nothing of the worker's leaks through it.", results, environmentIsTwo),
		c("C10", "inline files lie where the bundle says", "A scanner is given its inputs by path below its working directory, with exactly their bytes.", results, inlineFiles),
		c("C11", "the artifact arrives whole", "The bytes that are scanned are the bytes that were handed over.", results, artifactWhole),
		c("C12", "an artifact of another size is no answer", "A size that is not as declared means that something else than the artifact would be scanned.", results, artifactSizeLies),
		c("C13", "a missing command is told apart", "A room without its scanner is a fault of the deployment and must not look like the scanner's answer.", results, commandMissing),
		c("C14", "runs at once do not mix", "All methods are safe for concurrent use, so each of many runs gets its own answer.", results, concurrentRuns),
		c("C15", "nothing of a run is there in the next", "A run's instance and its files do not outlive it: no state can pass from one artifact to another.", results, freshEachTime),
		c("C16", "a scanner that hangs times out", "A scanner may hang, so the run ends by its timeout, as a timeout, and the whole process tree with it.", timeouts, hangTimesOut),
		c("C17", "a timeout ends daemons that ignore signals", "A process tree is killed whole, whatever its members do about signals and sessions.", timeouts, daemonsTimeOut),
		c("C18", "a cancelled run ends at once and leaves nothing", "A caller that gives up must not pay for what it no longer wants.", timeouts, cancelled),
		c("C19", "a context that has ended starts nothing", "A run that nobody waits for is not begun.", timeouts, cancelledBefore),
		c("C20", "Close ends the runs in flight", "A worker that goes down takes its sandboxes with it.", timeouts, closeEndsRuns),
		c("C21", "a request that contradicts itself is refused", "What no agent could follow is refused before anything is started, as the caller's mistake.", results, badRequests),
		c("C22", "an error is one line that says what and where", "Errors end in logs and on screens, where one line that names runtime, run and reason is what helps.", results, errorsAreLines),
		c("C23", "a scanner that closes stdout is waited for", "The end of the output is not the end of the scanner; its status is still to come.", results, closedStdout),
		c("C24", "a child that holds stdout does not hold the run", "The scanner's end is the end of the run, whatever its children keep open.", results, heldStdout),
		c("C25", "the result accounts for the run", "Bytes, times and memory are in the result, so that limits can be set by what is really used.", results, accounting),
		c("C26", "the name is constant", "The runtime's name is in configuration, metrics and errors and can't change under them.", results, constantName),
		c("C27", "a big argv and many entries arrive", "The caps of the wire format are what callers may use in full.", results, bigRequests),
		c("C28", "a sweep leaves runs in flight alone", "A sweep removes what dead workers left, and would otherwise be a way to kill living ones.", []Capability{Sweep}, sweepSparesRuns),
		c("C29", "a sweep of nothing removes nothing", "What a sweep removes has to be an orphan; on a clean host there is none, however often it is asked.", []Capability{Sweep}, sweepOfNothing),
		c("C30", "the network is there when asked for, or refused", "A run with network reaches out where that is claimed; where it is not claimed it is refused rather than run without.", results, networkOn),
		c("C31", "an image is used, or refused", "A request for an image that has no effect would run the scanner in another room than the caller thinks.", results, imageAsked),
		c("C32", "a probe is carried out, or says why not", "A runtime that can't prove its walls has to say so and never report success.", results, probeAsked),
		c("C33", "entries at reserved places are refused", "The names below the work directory that belong to the agent are no place for an input.", results, reservedEntries),
		c("C34", "threads work", "Scanners are ordinary programs, and current C libraries start threads through calls that a filter must refuse with care.", results, threadsWork),
		c("C35", "the values of personality that libc uses are allowed", "A flat refusal would break libc and Java without a wall being gained.", results, personalityWorks),
		c("C36", "a scanner that computes on is stopped by its CPU limit", "cpu_seconds is the scanner's RLIMIT_CPU on every runtime, and names its signal.", timeouts, cpuLimit),
		c("C38", "an image that is not there is refused", "A room that is missing is a fault of the deployment, told apart from everything that a scanner could do, and nothing else is run in its place.", images, imageMissing),
		c("C39", "another image is another room", "A run is opened from the image that it names and from no other.", images, imageChosen),
		c("C37", "an empty bundle is a run", "A scanner that only asks a service needs no artifact and gets none.", results, emptyBundle),
	}
}

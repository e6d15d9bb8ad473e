/** Who wakes the poll that waits, or is about to. At most one poll is under way. */
final class Waking {
    private boolean isExpected;
    private boolean isWoken;

    synchronized void expect() {
        isExpected = true;
    }

    /** `reader`: null if there is none. */
    synchronized void wake(Reading reader) {
        if (isExpected && !isWoken && reader != null) {
            isWoken = true;
            reader.wake();
        }
    }

    /** The poll has ended. Whether it was woken. */
    synchronized boolean isOver() {
        boolean was = isWoken;
        isExpected = false;
        isWoken = false;
        return was;
    }
}

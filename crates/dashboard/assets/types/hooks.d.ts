// As much of Preact's hooks as the page uses.
export function useState<T>(initial: T | (() => T)): [T, (next: T | ((before: T) => T)) => void];
export function useEffect(effect: () => void | (() => void), inputs?: unknown[]): void;
export function useMemo<T>(make: () => T, inputs: unknown[]): T;
export function useRef<T>(initial: T): { current: T };
